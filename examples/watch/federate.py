"""What the devices do: enrol with `ms-serve`, train the head on their own data, be summed unseen.

The server is a process of its own; every device talks to it over HTTP and trains with the lite
runtime. In one round three devices vanish, each after another stage, and come back in the next.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import lite_runtime as lite
from examples.watch.data import DeviceData
from fl_server.device import Device, Report
from fl_server.device.trainer import LiteTrainer, assign, initial_weights
from fl_server.operator import Operator, rounds_over
from fl_server.secagg.run import Stage

TASK = "watch"
ROUNDS, LOCAL_EPOCHS, LOCAL_BATCH = 12, 5, 16
# Small steps on the device and large ones on the server: local training drifts apart less.
LOCAL_RATE, SERVER_RATE = 0.01, 2.0
PERSONAL_EPOCHS, PERSONAL_RATE = 10, 0.05
CLIP = 4.0  # L2 norm of an update, and the largest coordinate
COHORT_FLOOR = 20
DROP_ROUND = 5  # in this round three devices vanish, each after another stage
DROPPED = {
    3: Stage.SHARE,
    11: Stage.VECTOR,
    19: Stage.AGREE,
}  # device -> last stage it takes part in
STAGE_S = {"join_s": 10, "share_s": 10, "vector_s": 3, "agree_s": 3, "reveal_s": 3}

Floats = np.ndarray


class DemoError(Exception):
    """Something that the demo relies on did not happen; the message is one line."""


@dataclass(frozen=True)
class Outcome:
    """Accuracy of each device on its own held-out windows, and what the rounds cost."""

    names: tuple[str, ...]
    before: tuple[float, ...]
    federated: tuple[float, ...]
    personalised: tuple[float, ...]
    by_round: tuple[float, ...]  # mean over the devices, from the base on
    rounds: tuple[dict[str, Any], ...]  # as the server tells them
    reports: tuple[tuple[Report, ...], ...]  # of each device

    @property
    def dropped(self) -> list[tuple[str, int, str]]:
        """(device, round, last stage) of every device that vanished."""
        return [
            (name, r.round, r.stage)
            for name, reports in zip(self.names, self.reports, strict=True)
            for r in reports
            if r.outcome == "stopped"
        ]


def federate(
    model: Path, devices: Sequence[DeviceData], folder: Path, seed: int, say: Callable[[str], None]
) -> Outcome:
    """Rounds over real HTTP, then personalisation. Raises DemoError if a round fails."""
    content = model.read_bytes()
    with (
        _server(folder / "server") as (url, authority),
        Operator(url, _token(folder, "admin")) as op,
    ):
        settings = {
            "rounds": ROUNDS,
            "min_cohort": COHORT_FLOOR,
            "target_cohort": len(devices),
            "learning_rate": SERVER_RATE,
            "clip_norm": CLIP,
            "clip_value": CLIP,
            **STAGE_S,
        }
        op.create_task(TASK, content, initial_weights(content), **settings)
        fleet = _Fleet(url, authority, _token(folder, "enrol"), folder, devices, seed)
        reports, status = fleet.run(op, say)
        if status["state"] != "finished":
            raise DemoError(f"the federated task is {status['state']}: {status.get('error')}")
        versions = [op.weights(TASK, version) for version in range(ROUNDS + 1)]
    by_round = [np.mean(_accuracies(content, w, devices)) for w in versions]
    for device, trained in zip(devices, reports, strict=True):
        if not trained:
            raise DemoError(f"device {device.name} took part in no round")
    return Outcome(
        tuple(d.name for d in devices),
        tuple(_accuracies(content, versions[0], devices)),
        tuple(_accuracies(content, versions[-1], devices)),
        tuple(_personalise(content, versions[-1], devices, folder, seed)),
        tuple(map(float, by_round)),
        tuple(status["rounds"]),
        tuple(tuple(r) for r in reports),
    )


class _Fleet:
    """The devices, one thread each; they share nothing but the server's address."""

    def __init__(
        self,
        url: str,
        authority: bytes,
        token: str,
        folder: Path,
        devices: Sequence[DeviceData],
        seed: int,
    ) -> None:
        self.where = (url, authority, token)
        self.folder, self.devices, self.seed = folder, devices, seed
        self.stop = threading.Event()

    def run(
        self, op: Operator, say: Callable[[str], None]
    ) -> tuple[list[list[Report]], dict[str, Any]]:
        with ThreadPoolExecutor(len(self.devices)) as pool:
            futures = [pool.submit(self.live, i) for i in range(len(self.devices))]
            status = op.status(TASK)
            try:
                while status["state"] == "running":
                    status = op.status(TASK, after=rounds_over(status))
                    _tell(status, say)
            finally:
                self.stop.set()
            return [f.result() for f in futures], status

    def live(self, i: int) -> list[Report]:
        """All rounds of one device; one that vanishes comes back as it would after a restart."""
        done: list[Report] = []
        last = DROPPED.get(i)
        if last is not None:
            done += self.part(i, rounds=DROP_ROUND - 1)
            done += self.part(i, stop_after=last)
        return done + self.part(i)

    def part(
        self, i: int, rounds: int | None = None, stop_after: Stage | None = None
    ) -> list[Report]:
        url, authority, token = self.where
        own = self.devices[i]
        trainer = _trainer(own, LOCAL_EPOCHS, LOCAL_RATE, 1000 * self.seed + i)
        place = self.folder / "devices" / own.name
        device = Device(
            url, place, trainer, authority, token, stop_after=stop_after, stop=self.stop
        )
        with device:
            return list(device.run(rounds, until_idle=True))


def _personalise(
    content: bytes, weights: Floats, devices: Sequence[DeviceData], folder: Path, seed: int
) -> Iterator[float]:
    """Each device trains on for itself; its own model stays in its folder."""
    for i, device in enumerate(devices):
        trainer = _trainer(device, PERSONAL_EPOCHS, PERSONAL_RATE, 1000 * seed + i)
        path = folder / "devices" / device.name / "personal.ms"
        trainer.personalise(weights, content, str(path))
        yield _accuracy(lite.load(path, threads=1), device)


def _trainer(device: DeviceData, epochs: int, rate: float, seed: int) -> LiteTrainer:
    own = {"x": device.train.x, "label": device.train.y}
    return LiteTrainer(own, epochs, LOCAL_BATCH, seed, learning_rate=rate)


def _accuracies(content: bytes, weights: Floats, devices: Sequence[DeviceData]) -> list[float]:
    session = lite.load(content, threads=1)
    assign(session, weights)
    return [_accuracy(session, device) for device in devices]


def _accuracy(session: lite.Session, device: DeviceData) -> float:
    return float((session.run(device.test.x).argmax(axis=1) == device.test.y).mean())


def _tell(status: dict[str, Any], say: Callable[[str], None]) -> None:
    over = [r for r in status["rounds"] if r["stage"] in ("finished", "failed")]
    if over:
        last = over[-1]
        figures = f"loss {last['loss']:.3f}" if "loss" in last else last.get("error", "")
        say(f"round {last['number']}/{ROUNDS}: {last['stage']}, {figures}")


@contextmanager
def _server(folder: Path) -> Iterator[tuple[str, bytes]]:
    """`ms-serve` on a free port; (its address, the enrolment authority's public key)."""
    command = [sys.executable, "-m", "fl_server", "serve", "--folder", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"(http://\S+:\d+), .* authority ([0-9a-f]{64})", line)
        if not found:
            raise DemoError(f"ms-serve did not start: {line.strip() or 'no output'}")
        threading.Thread(target=process.stderr.read, daemon=True).start()  # so that it never blocks
        yield found[1], bytes.fromhex(found[2])
    finally:
        process.terminate()
        process.wait()


def _token(folder: Path, name: str) -> str:
    return (folder / "server" / f"{name}.token").read_text().strip()
