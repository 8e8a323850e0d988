"""A secure round against a plain one, both over real HTTP with all clients on this machine.

    OPENBLAS_NUM_THREADS=1 python -m bench.federated [--clients 20] [--examples 600] [--json]

Both send float32 weights down and one update of each client up; before that each client trains a
net of two layers for an epoch on so many examples of 784 numbers, or, with none, not at all. The
plain one is a server on the same web framework that adds float32 updates as they come: no masks, no
signatures, no transcript, nothing kept on the disk. Seconds are of a whole round, on all cores that
the process may use; CPU is of server and clients together. `up` is the body bytes of one client.
"""

from __future__ import annotations

import argparse
import json
import resource
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import uvicorn
from fastapi import FastAPI, Request, Response

from fl_server.device import Device, Policy, Update
from fl_server.http.serving import Serving
from fl_server.secagg.encode import Floats
from fl_server.settings import Settings

MODEL = b"a model that nobody trains"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--length", type=int, default=1_000_000)
    parser.add_argument("--examples", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measure(options.clients, options.length, options.rounds, options.examples)
    if options.json:
        print(json.dumps(figures, indent=1))
        return
    for name, value in figures.items():
        print(f"{name:24} {value:>14,.3f}")


def measure(clients: int, length: int, rounds: int, examples: int) -> dict[str, float]:
    """Medians over the rounds."""
    work = Work(length, examples)
    plain, secure = [], []
    with plain_server(clients, length) as url, ThreadPoolExecutor(clients) as pool:
        callers = [httpx.Client(base_url=url, timeout=600) for _ in range(clients)]
        for number in range(rounds + 1):
            turn = [(caller, work, number) for caller in callers]
            plain.append(timed(lambda t=turn: list(pool.map(_plain_round, t))))
        for caller in callers:
            caller.close()
    with tempfile.TemporaryDirectory() as folder:
        secure, up = secure_rounds(Path(folder), clients, work, rounds + 1)
    # The first round of each has connections to open.
    seconds = [statistics.median(row[0] for row in rows[1:]) for rows in (plain, secure)]
    cpu = [statistics.median(row[1] for row in rows[1:]) for rows in (plain, secure)]
    return {
        "plain, s": seconds[0],
        "secure, s": seconds[1],
        "secure / plain": seconds[1] / seconds[0],
        "plain, CPU s": cpu[0],
        "secure, CPU s": cpu[1],
        "secure / plain, CPU": cpu[1] / cpu[0],
        "plain up, bytes": 4.0 * length,
        "secure up, bytes": up,
        "secure / plain, up": up / (4 * length),
    }


def timed(work: Any) -> tuple[float, float]:
    """Seconds by the clock, and of CPU by all threads."""
    start, cpu = time.perf_counter(), _cpu_s()
    work()
    return time.perf_counter() - start, _cpu_s() - cpu


def secure_rounds(
    folder: Path, clients: int, work: Work, rounds: int
) -> tuple[list[tuple[float, float]], float]:
    """Seconds and CPU of each round, and the bytes up of one client in the last."""

    class Trains:
        def train(self, weights: Floats, model: bytes) -> Update:
            return Update(work.update(weights))

    together = threading.Barrier(clients + 1)
    reports = []

    def take_part(device: Device) -> None:
        with device:
            device.enrol()
            for _ in range(rounds):
                together.wait()
                reports.append(next(device.run(1)))
                together.wait()

    settings = Settings(folder / "server", retry_s=0.05)
    with Serving(settings) as server, server.operator() as operator:
        sizes = {"min_cohort": clients, "target_cohort": clients}
        start = np.zeros(work.length, np.float32)
        operator.create_task("bench", MODEL, start, rounds=rounds, clip_norm=50.0, **sizes)
        arguments = Trains(), server.authority, server.enrol_token
        devices = [
            Device(server.url, folder / f"device-{i}", *arguments, policy=Policy(2))
            for i in range(clients)
        ]
        found = []
        with ThreadPoolExecutor(clients) as pool:
            running = [pool.submit(take_part, device) for device in devices]
            for _ in range(rounds):

                def one() -> None:
                    together.wait()
                    together.wait()

                found.append(timed(one))
            for job in running:
                job.result()
        if {report.outcome for report in reports} != {"done"}:
            raise RuntimeError(f"a round failed: {reports[-1].error}")
    return found, float(reports[-1].bytes_up)


class Work:
    """An epoch of gradient descent on a net of 784, h and 10 units with about `length` weights."""

    def __init__(self, length: int, examples: int) -> None:
        self.length = length
        self._hidden = length // (784 + 10)
        rng = np.random.default_rng(0)
        self._x = rng.normal(0, 1, (examples, 784)).astype(np.float32)
        self._y = np.eye(10, dtype=np.float32)[rng.integers(0, 10, examples)]
        self._fixed = rng.normal(0, 0.001, length).astype(np.float32)

    def update(self, weights: Floats) -> Floats:
        """What the epoch adds to the weights, and noise, so that every weight moves."""
        ends = 784 * self._hidden, (784 + 10) * self._hidden
        first = weights[: ends[0]].reshape(784, -1)
        second = weights[ends[0] : ends[1]].reshape(-1, 10)
        for start in range(0, len(self._x), 32):
            x, y = self._x[start : start + 32], self._y[start : start + 32]
            hidden = np.maximum(x @ first, 0)
            error = (hidden @ second - y) / len(x)
            back = (error @ second.T) * (hidden > 0)
            second = second - 0.01 * hidden.T @ error
            first = first - 0.01 * x.T @ back
        moved = np.concatenate([first.ravel(), second.ravel()]) - weights[: ends[1]]
        update = self._fixed.copy()
        update[: ends[1]] += moved
        return np.clip(update, -1, 1)


@contextmanager
def plain_server(clients: int, length: int) -> Iterator[str]:
    """Adds up float32 updates; the weights of a round come when all of the one before are in."""
    weights = [np.zeros(length, np.float32)]
    total, count, lock = np.zeros(length, np.float64), [0], threading.Lock()
    app = FastAPI()

    @app.get("/weights")
    def get_weights() -> Response:
        return Response(weights[-1].tobytes(), media_type="application/octet-stream")

    @app.put("/update")
    async def put_update(request: Request) -> Response:
        delta = np.frombuffer(await request.body(), np.float32)
        with lock:
            np.add(total, delta, out=total)
            count[0] += 1
            if count[0] == clients:
                weights.append((weights[-1] + total / clients).astype(np.float32))
                total[:], count[0] = 0, 0
        return Response(status_code=204)

    @app.get("/rounds")
    def rounds() -> int:
        return len(weights) - 1

    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))
    thread = threading.Thread(target=lambda: server.run(sockets=[listener]))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def _plain_round(turn: tuple[httpx.Client, Work, int]) -> None:
    caller, work, number = turn
    update = work.update(np.frombuffer(caller.get("/weights").content, np.float32))
    caller.put("/update", content=update.tobytes()).raise_for_status()
    while int(caller.get("/rounds").text) <= number:
        time.sleep(0.01)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
