"""Many devices and the server's own rounds under a seeded model of time, without HTTP or clocks.

Seconds pass only where the model says so: a device trains for as long as it takes that device, each
message is on its way for a while, and some devices go away in the middle of a round. All else is
what a server and devices do: certificates, masks, sums, a database. The same seed gives the same
seconds and the same weights, wherever the devices train.
"""

from __future__ import annotations

import hashlib
import heapq
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fl_server import messages as wire
from fl_server.access.clients import Caller
from fl_server.device.trainer import Measures, Trainer
from fl_server.errors import FlError, RoundFailed, SettingsError, StaleRound
from fl_server.fleet.engines import Learner, begin
from fl_server.plan.plan import Plan
from fl_server.rounds import record
from fl_server.secagg.client import Member, join
from fl_server.secagg.encode import Floats, Update
from fl_server.secagg.keys import Identity, RandomBytes
from fl_server.secagg.policy import Memory, Policy
from fl_server.secagg.run import Stage
from fl_server.service import Service
from fl_server.settings import Settings
from fl_server.storage.weights import weights_vector
from fl_server.task_settings import TaskSettings

TASK = "simulated"
_ASK = wire.CheckIn("", 0, b"")
_LONGEST_S, _SLOWEST = 1e6, 1e3  # of a device; a round lasts for a week at the most
_PATIENCE = 20  # so many times as long as devices train or a round is open, without one finished

T = TypeVar("T")
# What a device waits for: so many seconds, or, with None, that a round moves on.
_Steps = Generator[float | None, None, T]


@dataclass(frozen=True)
class Times:
    """How long things take.

    train_s: the median device's training · spread: the standard deviation of the logarithm of a
    device's speed · slow: the share of devices that take slow_factor times as long · message_s:
    from a device to the server or back · drop: the chance that a device goes away in a round, while
    it trains or after any stage but the last, and comes back after away_s
    """

    seed: int = 0
    train_s: float = 60.0
    spread: float = 0.2
    slow: float = 0.1
    slow_factor: float = 10.0
    message_s: float = 0.1
    drop: float = 0.0
    away_s: float = 600.0

    def __post_init__(self) -> None:
        if not 0 <= self.drop < 1:
            raise SettingsError(f"drop is {self.drop}, want a chance from 0 to below 1")
        if not 0 <= self.slow <= 1:
            raise SettingsError(f"slow is {self.slow}, want a share from 0 to 1")
        for name in ("train_s", "message_s", "away_s"):
            if not 0 < (given := getattr(self, name)) <= _LONGEST_S:
                raise SettingsError(f"{name} is {given}, want above 0, at most {_LONGEST_S:g}")
        if not 1 <= self.slow_factor <= _SLOWEST:
            raise SettingsError(f"slow_factor is {self.slow_factor}, want 1 to {_SLOWEST:g}")
        if not 0 <= self.spread <= 10:
            raise SettingsError(f"spread is {self.spread}, want 0 to 10")

    def of_devices(self, count: int) -> list[float]:
        """The seconds that each device trains for."""
        rng = np.random.default_rng([self.seed, 1])
        seconds = self.train_s * np.exp(self.spread * rng.standard_normal(count))
        slow = rng.permutation(count)[: round(self.slow * count)]
        seconds[slow] *= self.slow_factor
        return [float(s) for s in seconds]


@dataclass(frozen=True)
class Point:
    """The weights after a round: when they came, and how well they do.

    accuracy: the share of right answers, None where examples have none · clients: whose updates are
    in the sum · joined: who were in the round when it began
    """

    seconds: float
    round: int
    loss: float
    staleness: int
    accuracy: float | None = None
    clients: int = 0
    joined: int = 0


@dataclass
class Course:
    """reached: the seconds after which the loss was as low as was asked for, None if never ·
    gone: how often devices went away, by what they did last · ended: why there are fewer rounds
    than the task was to have, empty if there are not · privacy: what its releases have cost, None
    without differential privacy
    """

    points: list[Point] = field(default_factory=list)
    reached: float | None = None
    failed_rounds: int = 0
    gone: dict[str, int] = field(default_factory=dict)
    ended: str = ""
    privacy: dict[str, float] | None = None
    weights: Floats | None = field(default=None, repr=False)

    def figures(self) -> dict[str, Any]:
        """All but the weights, ready for JSON."""
        figures = asdict(self)
        del figures["weights"]
        return figures


def simulate_time(
    trainers: Sequence[Learner],
    model: bytes,
    weights: Floats,
    times: Times,
    *,
    settings: Mapping[str, Any],
    target_loss: float = -np.inf,
    cohort_floor: int = 2,
    test: Measures | None = None,
    progress: Callable[[Point], None] = lambda point: None,
) -> Course:
    """Run a task with one device for each trainer, until it ends or the loss is as low as asked.

    After each round the loss is that of `test`, or else the mean of what the devices measure of the
    global weights.     settings: fields of TaskSettings
    raises SettingsError, RoundFailed
    """
    if np.isnan(target_loss):
        raise SettingsError("target_loss is nan, want a number")
    task = TaskSettings.checked(name=TASK, **settings)
    if task.plan().is_taught:
        raise SettingsError("modelled time has neither strategy scaffold nor local weights")

    def measure(values: Floats) -> tuple[float, float | None]:
        measures = trainers if test is None else [test]
        found = [one.measure(values, model) for one in measures]
        loss = float(np.mean([update.loss for update in found]))
        right = sum(update.correct for update in found)
        return loss, right / sum(update.examples for update in found) if right else None

    with tempfile.TemporaryDirectory() as folder:
        world = _World(Path(folder), times, Policy(cohort_floor))
        try:
            digest = world.service.store.put_blob(model)
            world.service.rounds.create_task(task, digest, weights)
            seconds = times.of_devices(len(trainers))
            for i, trainer in enumerate(trainers):
                world.begin(_Device(world, i, trainer, seconds[i]).run())
            longest = _PATIENCE * max(task.join_s, *seconds)
            return _follow(world, measure, target_loss, longest, progress)
        finally:
            world.service.store.close()


def _follow(
    world: _World,
    measure: Callable[[Floats], tuple[float, float | None]],
    target_loss: float,
    longest: float,
    progress: Callable[[Point], None],
) -> Course:
    course, rounds = Course(), world.service.rounds
    seen: set[int] = set()
    last = 0.0
    while course.reached is None and world.step() and world.now - last < longest:
        if not world.moved:
            continue
        world.moved = False
        for entry in record.of_task(world.service.store, TASK):
            if entry["stage"] != "finished" or entry["number"] in seen:
                continue
            seen.add(entry["number"])
            last = world.now
            course.weights = rounds.weights.values(rounds.weights.latest(TASK))
            point = _point(world.now, entry, *measure(course.weights))
            course.points.append(point)
            progress(point)
            if point.loss <= target_loss:
                course.reached = world.now
    task = rounds.tasks.get(TASK)
    if task.state == "failed":
        raise RoundFailed(f"the task is {task.state}: {task.error}")
    if task.state == "running" and course.reached is None:
        raise RoundFailed(
            f"no device moves any more after {len(course.points)} rounds; of a round that failed "
            "late, who has sent a vector sends no other on its weights"
        )
    with world.service.store.read() as db:
        course.failed_rounds = record.stages(db, TASK).get("failed", 0)
    course.gone = dict(sorted(world.gone.items()))
    course.ended, course.privacy = task.error, rounds.spent(task)
    return course


def _point(now: float, entry: dict[str, Any], loss: float, accuracy: float | None) -> Point:
    sizes = {"clients": entry["survivors"], "joined": entry["clients"]}
    return Point(now, entry["number"], loss, entry.get("staleness", 0), accuracy, **sizes)


class _World:
    """The server, and what is to happen when."""

    def __init__(self, folder: Path, times: Times, policy: Policy) -> None:
        self.now, self.times, self.policy = 0.0, times, policy
        self.moved = False
        self.gone: Counter[str] = Counter()
        settings = Settings(folder, clock=lambda: self.now, random=_random(times.seed, "server"))
        self.service = Service(settings)
        self.service.rounds.on_change(self._on_change)
        self._changes = 0
        self._due: list[tuple[float, int, _Steps[None]]] = []
        self._waiting: list[_Steps[None]] = []
        self._deadline: float | None = None
        self._count = 0

    def begin(self, device: _Steps[None]) -> None:
        self._at(self.now, device)

    def step(self) -> bool:
        """Let what is next happen; False once nothing is left."""
        if self._deadline is not None and (not self._due or self._deadline < self._due[0][0]):
            self.now = max(self.now, self._deadline)
            self._look()
            return True
        if not self._due:
            return False
        self.now, _, device = heapq.heappop(self._due)
        try:
            wait = next(device)
        except StopIteration:
            return True
        if wait is None:
            self._waiting.append(device)
        else:
            self._at(self.now + wait, device)
        if self._changes:
            self._look()
        return True

    def _look(self) -> None:
        """End what is due, and wake those who wait for a round to move on."""
        self._deadline = self.service.rounds.tick()
        self._changes = 0
        woken, self._waiting = self._waiting, []
        for device in woken:
            self._at(self.now + self.times.message_s, device)

    def _at(self, when: float, device: _Steps[None]) -> None:
        self._count += 1
        heapq.heappush(self._due, (when, self._count, device))

    def _on_change(self) -> None:
        self._changes += 1
        self.moved = True


class _Gone(Exception):
    """A device has gone away after what this names."""


class _Device:
    """What a device does, as steps between which time passes."""

    def __init__(self, world: _World, i: int, trainer: Trainer, train_s: float) -> None:
        self._world, self._trainer, self._train_s = world, trainer, train_s
        self._random = _random(world.times.seed, f"device {i}")
        self._memory = Memory()
        self._last = ""
        self._rng = np.random.default_rng([world.times.seed, 2, i])
        self._member, self._caller = self._enrol()

    def run(self) -> _Steps[None]:
        while True:
            offer = yield from self._await_offer()
            if offer is None:
                return
            store, plan = self._world.service.store, Plan.of(offer.plan)
            start = weights_vector(store.get_blob(offer.weights))
            trained = begin(self._trainer, start, store.get_blob(offer.model))
            self._last = self._drawn_last()
            yield self._train_s * float(np.exp(0.05 * self._rng.standard_normal()))
            update = trained()
            seed = plan.seed(offer.context)
            update = replace(update, delta=plan.pack(update.delta, None, seed))
            try:
                self._stay("training")
                later: wire.Offer | None = offer
                while later is not None:
                    later = yield from self._aggregate(later, update)
            except _Gone as gone:
                self._world.gone[str(gone)] += 1
                yield self._world.times.away_s
            except FlError:  # the round went on without this device
                yield self._world.times.message_s

    def _drawn_last(self) -> str:
        """What this device does last in its next round, empty if it stays to the end."""
        if self._rng.random() >= self._world.times.drop:
            return ""
        return str(self._rng.choice(["training", *(s.name.lower() for s in Stage)][:-1]))

    def _stay(self, done: str) -> None:
        """raises _Gone where this was the last thing that the device does"""
        if done == self._last:
            raise _Gone(done)

    def _await_offer(self) -> _Steps[wire.Offer | None]:
        rounds = self._world.service.rounds
        while True:
            yield self._world.times.message_s
            reply = rounds.check_in(self._caller, _ASK)
            if reply is not None and reply.kind == wire.IDLE:
                return None
            if reply is not None:
                offer = wire.Offer.from_bytes(reply.body)
                try:
                    self._memory.check_newer(offer.context.task, offer.context.round)
                except StaleRound:
                    pass
                else:
                    return offer
            yield None

    def _aggregate(self, offer: wire.Offer, update: Update) -> _Steps[wire.Offer | None]:
        """One round; another to go into comes out if this one has filled."""
        rounds, context = self._world.service.rounds, offer.context
        arguments = offer.encoding, self._world.policy, self._memory, self._random
        joined = join(self._member, context, *arguments)
        message = wire.CheckIn(context.task, context.round, joined.message)
        reply = yield from self._answer(lambda: rounds.check_in(self._caller, message))
        if reply.kind == wire.OFFER:
            return wire.Offer.from_bytes(reply.body)
        self._stay("advertise")
        session = reply.body.hex()

        def get(stage: str) -> _Steps[bytes]:
            return self._answer(lambda: rounds.get(self._caller, session, stage))

        def put(stage: str, body: bytes) -> _Steps[None]:
            yield self._world.times.message_s
            rounds.put(self._caller, session, stage, body)
            self._stay(stage)

        shared = joined.receive_cohort((yield from get("advertise")), self._world.now)
        yield from put("share", shared.message)
        masked = shared.receive_shares((yield from get("share")), update)
        yield from put("vector", masked.message)
        agreed = masked.receive_survivors((yield from get("vector")))
        yield from put("agree", agreed.message)
        revealed = agreed.receive_agreements((yield from get("agree")))
        yield from put("reveal", revealed.message)
        return None

    def _answer(self, ask: Callable[[], T | None]) -> _Steps[T]:
        """What the server answers once it has an answer."""
        yield self._world.times.message_s
        while (found := ask()) is None:
            yield None
        return found

    def _enrol(self) -> tuple[Member, Caller]:
        service, identity = self._world.service, Identity(self._random(32))
        request = wire.Enrol.of(identity, "default", service.enrol_token.encode())
        enrolled = service.clients.enrol(request)
        assert enrolled is not None, "the authority is the server's own"
        member = Member(identity, enrolled.certificate, enrolled.authority)
        return member, Caller(member.id, "default", enrolled.certificate)


def _random(seed: int, whose: str) -> RandomBytes:
    """A stream of bytes that depends on the seed alone: nothing here is secret."""
    count = 0

    def draw(size: int) -> bytes:
        nonlocal count
        count += 1
        return hashlib.shake_256(f"{seed}/{whose}/{count}".encode()).digest(size)

    return draw
