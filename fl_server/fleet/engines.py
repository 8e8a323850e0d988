"""Where the devices of a simulation train: in this process, or on the machines of a Ray cluster."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

from fl_server.device.trainer import Measures, Trained, Trainer, Work
from fl_server.errors import MissingExtra, SettingsError
from fl_server.secagg.encode import Floats, Update

_START_S, _ATTEMPTS = 300, 3


class Learner(Trainer, Measures, Protocol):
    """Trains, and tells how well weights do."""


@runtime_checkable
class Begins(Protocol):
    """A trainer that trains elsewhere, so that others can train meanwhile."""

    def begin(self, weights: Floats, model: bytes) -> Callable[[], Update]:
        """Train, and give what waits for the update; at most one training at a time."""
        ...


def begin(trainer: Trainer, weights: Floats, model: bytes) -> Callable[[], Update]:
    """What waits for the update of a training that has begun, or else trains when it is called."""
    if isinstance(trainer, Begins):
        return trainer.begin(weights, model)
    return lambda: trainer.train(weights, model)


@contextmanager
def engine_of(
    name: str, trainers: Sequence[Learner], workers: int | None = None
) -> Iterator[Sequence[Learner]]:
    """The trainers where they are to train: these, or their stand-ins for processes of Ray.

    workers: how many processes Ray starts, one for each of its free processors if None. Devices
    belong to one process each and train in their order there: results are those without Ray.
    raises MissingExtra, SettingsError
    """
    if name == "process":
        yield trainers
        return
    ray = _ray()
    started = not ray.is_initialized()
    if started:
        _start(ray)
    actors = []
    try:
        most = int(ray.cluster_resources().get("CPU", 0))
        free = max(int(ray.available_resources().get("CPU", 0)), 1)
        count = min(free if workers is None else workers, len(trainers))
        if not 1 <= count <= most:
            raise SettingsError(
                f"engine ray: {count} workers, want 1 to {most}, the cluster's processors"
            )
        cast, kept = ray.remote(num_cpus=1)(_Worker), _Kept(ray)
        actors = [cast.remote(list(trainers[i::count])) for i in range(count)]
        _await_start(ray, actors)
        yield [OnRay(ray, actors[i % count], i // count, kept) for i in range(len(trainers))]
    finally:
        for actor in actors:
            ray.kill(actor)
        if started:
            ray.shutdown()


class OnRay:
    """Stands in for a trainer that lives in another process."""

    def __init__(self, ray: Any, actor: Any, place: int, kept: _Kept) -> None:
        self._ray, self._actor, self._place, self._kept = ray, actor, place, kept

    def begin(self, weights: Floats, model: bytes) -> Callable[[], Update]:
        pending = self._call("train", weights, model)
        return lambda: self._wait(pending)

    def train(self, weights: Floats, model: bytes) -> Update:
        update: Update = self._wait(self._call("train", weights, model))
        return update

    def measure(self, weights: Floats, model: bytes) -> Update:
        update: Update = self._wait(self._call("measure", weights, model))
        return update

    def follow(self, weights: Floats, model: bytes, work: Work) -> Trained:
        trained: Trained = self._wait(self._call("follow", weights, model, work))
        return trained

    def measure_own(self, weights: Floats, model: bytes, work: Work) -> Update:
        update: Update = self._wait(self._call("measure_own", weights, model, work))
        return update

    def _call(self, method: str, weights: Floats, model: bytes, *more: Work) -> Any:
        arguments = self._kept.put(weights), self._kept.put(model), *more
        return self._actor.call.remote(self._place, method, *arguments)

    def _wait(self, pending: Any) -> Any:
        """raises what the trainer raised"""
        try:
            return self._ray.get(pending)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None


class _Kept:
    """Objects in Ray's store, so that all devices of a round share one copy of what they get."""

    _MOST = 8

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._places: dict[bytes, Any] = {}

    def put(self, what: Floats | bytes) -> Any:
        key = what if isinstance(what, bytes) else what.tobytes()
        if key not in self._places:
            while len(self._places) >= self._MOST:
                del self._places[next(iter(self._places))]
            self._places[key] = self._ray.put(what)
        return self._places[key]


def _start(ray: Any) -> None:
    """Join the cluster that RAY_ADDRESS names, or begin one here.     raises SettingsError"""
    for attempt in range(_ATTEMPTS):
        try:
            ray.init(log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
        except Exception as error:  # Ray raises that itself where a busy machine takes 30 s
            ray.shutdown()
            if attempt + 1 == _ATTEMPTS:
                raise SettingsError(f"engine ray: no cluster: {error}") from None
        else:
            return


def _await_start(ray: Any, actors: list[Any]) -> None:
    """raises SettingsError where others have the processors and keep them"""
    begun, others = ray.wait(
        [actor.count.remote() for actor in actors], num_returns=len(actors), timeout=_START_S
    )
    if others:
        raise SettingsError(
            f"engine ray: {len(begun)} of {len(actors)} workers have begun after {_START_S} s; "
            "want as many free processors in the cluster"
        )


class _Worker:
    """The process in which some of the devices train."""

    def __init__(self, trainers: list[Learner]) -> None:
        self._trainers = trainers

    def count(self) -> int:
        return len(self._trainers)

    def call(self, place: int, method: str, *arguments: Any) -> Any:
        return getattr(self._trainers[place], method)(*arguments)


def _ray() -> Any:
    """raises MissingExtra"""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else it tells its makers of each run
    try:
        import ray
    except ImportError as error:
        raise MissingExtra(f"engine ray: pip install 'mindspan[ray]': {error}") from None
    return ray
