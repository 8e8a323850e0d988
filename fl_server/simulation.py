"""Many devices on one machine against the real server over real HTTP."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fl_server.device.device import Device, Report
from fl_server.device.trainer import Trainer
from fl_server.errors import RoundFailed
from fl_server.http.serving import Serving
from fl_server.operator import Operator, rounds_over
from fl_server.secagg.encode import Floats
from fl_server.secagg.policy import Policy
from fl_server.secagg.run import Stage
from fl_server.settings import Settings

TASK = "simulated"


@dataclass(frozen=True)
class Simulated:
    """status: the task's · weights: the last global weights · reports: of each device, by round"""

    status: dict[str, Any]
    weights: Floats
    reports: list[list[Report]]
    seconds: float

    def figures(self) -> dict[str, Any]:
        """All but the weights, ready for JSON."""
        return {
            "seconds": round(self.seconds, 3),
            "status": self.status,
            "devices": [[asdict(report) for report in reports] for reports in self.reports],
        }


def simulate(
    trainers: Sequence[Trainer],
    model: bytes,
    weights: Floats,
    *,
    rounds: int = 1,
    cohort_floor: int = 20,
    stop_after: Mapping[int, Stage] | None = None,
    settings: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> Simulated:
    """Run a task with one device for each trainer.     raises RoundFailed, TrainingFailed

    stop_after: by the trainer's index, the stage after which a device vanishes for good
    settings: more fields of TaskSettings
    """
    start = time.perf_counter()
    stop_after = stop_after or {}
    with tempfile.TemporaryDirectory() as temporary:
        place = folder or Path(temporary)
        with Serving(Settings(place / "server", retry_s=0.2)) as server, server.operator() as op:
            chosen: dict[str, Any] = {
                "rounds": rounds,
                "min_cohort": cohort_floor,
                "target_cohort": len(trainers),
                **(settings or {}),
            }
            op.create_task(TASK, model, weights, **chosen)
            stop = threading.Event()
            devices = [
                Device(
                    server.url,
                    place / f"device-{i}",
                    trainer,
                    server.authority,
                    server.enrol_token,
                    policy=Policy(cohort_floor, unmasked=chosen.get("aggregation") == "unmasked"),
                    stop_after=stop_after.get(i),
                    stop=stop,
                )
                for i, trainer in enumerate(trainers)
            ]
            reports = _run(devices, op, stop, progress)
            status = op.status(TASK)
            if status["state"] != "finished":
                raise RoundFailed(f"the task is {status['state']}: {status['error']}")
            seconds = time.perf_counter() - start
            return Simulated(status, op.weights(TASK), reports, seconds)


def _run(
    devices: list[Device], op: Operator, stop: threading.Event, progress: Callable[[str], None]
) -> list[list[Report]]:
    """Every device in a thread until the task is over; a device that breaks ends it."""

    def take_part(device: Device) -> list[Report]:
        with device:
            return list(device.run(until_idle=True))

    def end_if_broken(future: Future[list[Report]]) -> None:
        if future.exception() is not None:
            stop.set()
            op.stop(TASK)

    with ThreadPoolExecutor(len(devices)) as pool:
        futures = [pool.submit(take_part, device) for device in devices]
        for future in futures:
            future.add_done_callback(end_if_broken)
        try:
            status = op.status(TASK)
            while status["state"] == "running":
                status = op.status(TASK, after=rounds_over(status))
                _tell(status, progress)
        finally:
            if status["state"] != "finished":
                stop.set()
        return [future.result() for future in futures]


def _tell(status: dict[str, Any], progress: Callable[[str], None]) -> None:
    over = [entry for entry in status["rounds"] if entry["stage"] in ("finished", "failed")]
    if over:
        last = over[-1]
        figures = f"loss {last['loss']:.4f}" if "loss" in last else last.get("error", "")
        progress(f"round {last['number']}: {last['stage']}, {figures}")
