"""What the devices do: enrol with `ms-serve`, train the head on their own data, be summed unseen.

Every device talks to the server over HTTP and trains with the lite runtime. In one round three
devices vanish, each after another stage, and come back in the next.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import lite_runtime as lite
from examples.watch.data import DeviceData, Windows
from examples.watch.server import Server, serving
from fl_server.device import Device, Report
from fl_server.device.trainer import LiteTrainer
from fl_server.device.weights import assign, initial_weights, save_model
from fl_server.errors import FlError
from fl_server.operator import Operator, rounds_over
from fl_server.secagg.policy import COHORT_FLOOR
from fl_server.secagg.run import Stage

TASK = "watch"
BATCH = 16
CLIP = 4.0  # L2 norm of an update, and the largest coordinate
STAGE_S = {"join_s": 10, "share_s": 10, "vector_s": 3, "agree_s": 3, "reveal_s": 3}

Floats = np.ndarray
Say = Callable[[str], None]


class DemoError(Exception):
    """Something that the demo relies on did not happen; the message is one line."""


@dataclass(frozen=True)
class Plan:
    """How the devices learn, and who vanishes: (device, the last stage that it takes part in)."""

    rounds: int = 12
    local_epochs: int = 5
    # Small steps on the device and large ones on the server: local training drifts apart less.
    local_rate: float = 0.01
    server_rate: float = 2.0
    personal_epochs: int = 10
    personal_rate: float = 0.05
    drop_round: int = 5
    dropped: tuple[tuple[int, Stage], ...] = (
        (3, Stage.SHARE),
        (11, Stage.VECTOR),
        (19, Stage.AGREE),
    )


@dataclass(frozen=True)
class Outcome:
    """Accuracy of each device on its own held-out windows, and what the rounds cost.

    local_only: trained as long as in all rounds and personalisation, but alone, from the base
    """

    names: tuple[str, ...]
    before: tuple[float, ...]
    federated: tuple[float, ...]
    personalised: tuple[float, ...]
    local_only: tuple[float, ...]
    by_round: tuple[float, ...]  # mean over the devices, from the base on
    new_people: tuple[float, float]  # before and after, of people who never took part
    rounds: tuple[dict[str, Any], ...]  # as the server tells them
    reports: tuple[tuple[Report, ...], ...]  # of each device
    seconds: dict[str, float]

    @property
    def dropped(self) -> list[tuple[str, int, str]]:
        """(device, round, last stage) of every device that vanished."""
        return [
            (name, r.round, r.stage)
            for name, reports in zip(self.names, self.reports, strict=True)
            for r in reports
            if r.outcome == "stopped"
        ]


class Fleet:
    """The devices, one thread each; they share nothing but the server's address."""

    def __init__(
        self, server: Server, folder: Path, devices: Sequence[DeviceData], seed: int, plan: Plan
    ) -> None:
        self.server, self.folder, self.plan = server, folder, plan
        self.devices, self.seed = devices, seed
        self.stop = threading.Event()

    def run(self, op: Operator, say: Say) -> tuple[list[list[Report]], dict[str, Any]]:
        """Reports and the task's status once it is over; a device that breaks ends it."""

        def end_if_broken(future: Future[list[Report]]) -> None:
            if future.exception() is not None:
                self._end(op)

        with ThreadPoolExecutor(len(self.devices)) as pool:
            futures = [pool.submit(self.live, i) for i in range(len(self.devices))]
            for future in futures:
                future.add_done_callback(end_if_broken)
            try:
                status = op.status(TASK)
                while status["state"] == "running":
                    status = op.status(TASK, after=rounds_over(status))
                    self._tell(status, say)
            except BaseException:
                self._end(op)
                raise
            self.stop.set()
            return [f.result() for f in futures], status

    def live(self, i: int) -> list[Report]:
        """All rounds of one device; one that vanishes comes back as it would after a restart."""
        done: list[Report] = []
        last = dict(self.plan.dropped).get(i)
        if last is not None:
            done += self._part(i, rounds=self.plan.drop_round - 1)
            done += self._part(i, stop_after=last)
        return done + self._part(i)

    def device(self, i: int, **more: Any) -> Device:
        """Device i as it starts up."""
        own, server = self.devices[i], self.server
        place = self.folder / "devices" / own.name
        trainer = self.trainer(i)
        tokens = server.authority, server.token("enrol")
        return Device(server.url, place, trainer, *tokens, stop=self.stop, **more)

    def trainer(self, i: int) -> Any:
        plan, seed = self.plan, 1000 * self.seed + i
        return _trainer(self.devices[i], plan.local_epochs, plan.local_rate, seed)

    def _part(
        self, i: int, rounds: int | None = None, stop_after: Stage | None = None
    ) -> list[Report]:
        with self.device(i, stop_after=stop_after) as device:
            return list(device.run(rounds, until_idle=True))

    def _end(self, op: Operator) -> None:
        """No device waits any longer: the server lets go of those that it holds."""
        self.stop.set()
        with suppress(FlError):  # a server that is gone holds nobody
            op.stop(TASK)

    def _tell(self, status: dict[str, Any], say: Say) -> None:
        over = [r for r in status["rounds"] if r["stage"] in ("finished", "failed")]
        if over:
            last = over[-1]
            figures = f"loss {last['loss']:.3f}" if "loss" in last else last.get("error", "")
            say(f"round {last['number']}/{self.plan.rounds}: {last['stage']}, {figures}")


def federate(
    model: Path,
    devices: Sequence[DeviceData],
    others: Windows,
    folder: Path,
    seed: int,
    say: Say,
    plan: Plan | None = None,
    fleet: type[Fleet] = Fleet,
) -> Outcome:
    """Rounds over real HTTP, then personalisation. Raises DemoError if a round fails.

    others: windows of people who take no part. In `folder`: what the server and each device keep,
    the global weights by round in heads.npy, the federated model in federated.ms.
    """
    plan, content, start = plan or Plan(), model.read_bytes(), time.perf_counter()
    with serving(folder / "server") as server, Operator(server.url, server.token("admin")) as op:
        op.create_task(TASK, content, initial_weights(content), **_settings(plan, len(devices)))
        reports, status = fleet(server, folder, devices, seed, plan).run(op, say)
        if status["state"] != "finished":
            raise DemoError(f"the federated task is {status['state']}: {status.get('error')}")
        heads = [op.weights(TASK, version) for version in range(plan.rounds + 1)]
    for device, trained in zip(devices, reports, strict=True):
        if not trained:
            raise DemoError(f"device {device.name} took part in no round")
    federated = time.perf_counter()
    np.save(folder / "heads.npy", np.stack(heads))
    save_model(content, heads[-1], str(folder / "federated.ms"))
    by_round = [_accuracies(content, head, devices) for head in heads]
    local = tuple(_alone(content, devices, seed, plan))
    personal = tuple(_personalise(content, heads[-1], devices, folder, seed, plan))
    before, after = (_accuracy(_opened(content, head), others) for head in (heads[0], heads[-1]))
    return Outcome(
        names=tuple(d.name for d in devices),
        before=tuple(by_round[0]),
        federated=tuple(by_round[-1]),
        personalised=personal,
        local_only=local,
        by_round=tuple(float(np.mean(accuracies)) for accuracies in by_round),
        new_people=(before, after),
        rounds=tuple(status["rounds"]),
        reports=tuple(tuple(r) for r in reports),
        seconds={"rounds": federated - start, "personal": time.perf_counter() - federated},
    )


def _settings(plan: Plan, devices: int) -> dict[str, Any]:
    return {
        "rounds": plan.rounds,
        "min_cohort": COHORT_FLOOR,
        "target_cohort": devices,
        "learning_rate": plan.server_rate,
        "clip_norm": CLIP,
        "clip_value": CLIP,
        **STAGE_S,
    }


def _personalise(
    content: bytes,
    head: Floats,
    devices: Sequence[DeviceData],
    folder: Path,
    seed: int,
    plan: Plan,
) -> Iterator[float]:
    """Each device trains on for itself; its own model stays in its folder."""
    for i, device in enumerate(devices):
        trainer = _trainer(device, plan.personal_epochs, plan.personal_rate, 1000 * seed + i)
        path = folder / "devices" / device.name / "personal.ms"
        trainer.personalise(head, content, str(path))
        yield _accuracy(lite.load(path, threads=1), device.test)


def _alone(content: bytes, devices: Sequence[DeviceData], seed: int, plan: Plan) -> Iterator[float]:
    """Each device trains from the base for as many epochs, and nobody hears of it."""
    steps = (
        (plan.rounds * plan.local_epochs, plan.local_rate),
        (plan.personal_epochs, plan.personal_rate),
    )
    for i, device in enumerate(devices):
        head = initial_weights(content)
        for epochs, rate in steps:
            head = head + _trainer(device, epochs, rate, 1000 * seed + i).train(head, content).delta
        yield _accuracy(_opened(content, head), device.test)


def _trainer(device: DeviceData, epochs: int, rate: float, seed: int) -> LiteTrainer:
    own = {"x": device.train.x, "label": device.train.y}
    return LiteTrainer(own, epochs, BATCH, seed, learning_rate=rate)


def _opened(content: bytes, head: Floats) -> lite.Session:
    session = lite.load(content, threads=1)
    assign(session, head)
    return session


def _accuracies(content: bytes, head: Floats, devices: Sequence[DeviceData]) -> list[float]:
    session = _opened(content, head)
    return [_accuracy(session, device.test) for device in devices]


def _accuracy(session: lite.Session, windows: Windows) -> float:
    return float((session.run(windows.x).argmax(axis=1) == windows.y).mean())
