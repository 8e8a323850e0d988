"""A secure round beside plain ones, over real HTTP: server and clients in processes of their own.

    OPENBLAS_NUM_THREADS=1 python -m bench.federated [--clients 20] [--examples 600] [--epochs 1]

Three contenders take turns. All send float32 weights down and one update of each client up; before
that each client trains a net of two layers for some epochs on so many examples of 784 numbers, or,
with none, not at all.

    plain      a server on the same web framework that adds float32 updates as they come: no
               signatures, no transcript, nothing kept on the disk
    unmasked   ms-serve and its devices without the protocol's masks (`aggregation=unmasked`)
    secure     the same with them

`--flower PYTHON`, of an environment with Flower's `flwr[simulation]` and `psutil`, adds rounds of
its SecAgg+ workflow in the same run, whose clients train nothing and whose messages go through
memory (flower_twin.py): beside ours with `--examples 0`.

Every client is a process, started and enrolled before any round; ms-serve runs as an operator
starts it. Seconds are of a whole round, on all cores that the processes may use; CPU is that of all
of them. `up` is the body bytes of one client. The folders lie where TMPDIR says.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import uvicorn
from fastapi import FastAPI, Request, Response

from bench.load import Server, serving
from fl_server.device import Device, Policy, Update
from fl_server.secagg.encode import Floats

MODEL = b"a model that nobody trains"
OURS = {"unmasked": Policy(2, unmasked=True), "secure": Policy(2)}
CONTENDERS = "plain", *OURS
# All but the bench itself are made from one that has read the modules: what starts is not counted.
_processes = multiprocessing.get_context("forkserver")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--length", type=int, default=1_000_000)
    parser.add_argument("--examples", type=int, default=600)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--flower", metavar="PYTHON", help="one with Flower: its SecAgg+, too")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    work = Work(options.length, options.examples, options.epochs)
    figures = measure(options.clients, options.rounds, work)
    if options.flower:
        figures |= flower(options.flower, options.clients, options.length, options.rounds)
    if options.json:
        print(json.dumps(figures, indent=1))
        return
    for name, value in figures.items():
        print(f"{name:32} {value:>14,.3f}")


def measure(clients: int, rounds: int, work: Work) -> dict[str, float]:
    """Medians over the rounds, and ratios of them."""
    _processes.set_forkserver_preload(["bench.load", "fastapi", "uvicorn"])
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = {"plain": stack.enter_context(plain_server(clients, work.length))}
        for name in OURS:
            servers[name] = stack.enter_context(serving(folder / name))
            _create_task(servers[name], name, clients, work.length, rounds + 1)
        people = stack.enter_context(started(servers, folder, clients, work))
        # The first round of each has connections to open.
        turns = [
            {name: one_round(name, servers[name], people) for name in CONTENDERS}
            for _ in range(rounds + 1)
        ][1:]
    return figures_of(turns)


@dataclass(frozen=True)
class Round:
    """Seconds by the clock, and of CPU by the clients and the server; bytes up of one client."""

    seconds: float
    clients_s: float
    server_s: float
    up: int


def figures_of(turns: list[dict[str, Round]]) -> dict[str, float]:
    """What is printed."""
    figures: dict[str, float] = {}

    def median(name: str, of: Callable[[Round], float]) -> float:
        return statistics.median(of(turn[name]) for turn in turns)

    for name in CONTENDERS:
        figures[f"{name}, s"] = median(name, lambda r: r.seconds)
        figures[f"{name}, CPU s"] = median(name, lambda r: r.clients_s + r.server_s)
        figures[f"{name}, CPU s of clients"] = median(name, lambda r: r.clients_s)
        figures[f"{name}, CPU s of server"] = median(name, lambda r: r.server_s)
        figures[f"{name}, up, bytes"] = median(name, lambda r: r.up)
    for one, other in (("secure", "plain"), ("secure", "unmasked"), ("unmasked", "plain")):
        for what in (", s", ", CPU s", ", up, bytes"):
            figures[f"{one} / {other}{what}"] = figures[one + what] / figures[other + what]
    return figures


def flower(python: str, clients: int, length: int, rounds: int) -> dict[str, float]:
    """Medians of Flower's rounds, but the first, which starts its workers."""
    twin = Path(__file__).with_name("flower_twin.py")
    command = [python, str(twin), str(clients), str(length), str(rounds + 1)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    _, *rows, last = (json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{")
    medians = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
    return {
        "flower, s": medians["seconds"],
        "flower, CPU s": medians["cpu_s"],
        "flower, up, bytes": medians["up"],
        "flower, error of the mean": last["error"],
    }


def one_round(name: str, server: Server, people: list[Connection]) -> Round:
    """All clients take part in a round of one contender."""
    before, start = server.cpu_s(), time.perf_counter()
    for client in people:
        client.send(name)
    answers = [client.recv() for client in people]
    seconds = time.perf_counter() - start
    used, up = zip(*answers, strict=True)
    return Round(seconds, sum(used), server.cpu_s() - before, up[0])


@contextlib.contextmanager
def started(
    servers: dict[str, Server], folder: Path, clients: int, work: Work
) -> Iterator[list[Connection]]:
    """Clients that have enrolled: each is told whose round it is, and answers with the CPU seconds
    that it took and the bytes that it sent."""
    people, running = [], []
    for number in range(clients):
        ours, theirs = _processes.Pipe()
        arguments = servers, folder / f"client-{number}", work, theirs
        process = _processes.Process(target=_client, args=arguments, daemon=True)
        process.start()
        theirs.close()
        people.append(ours)
        running.append(process)
    try:
        for client in people:
            client.recv()
        yield people
    finally:
        for client in people:
            client.close()
        for process in running:
            process.join()


def _client(servers: dict[str, Server], folder: Path, work: Work, told: Connection) -> None:
    """One client of every contender, until nobody tells it anything more."""

    class Trains:
        def train(self, weights: Floats, model: bytes) -> Update:
            return Update(work.update(weights))

    def secure(device: Device) -> int:
        report = next(device.run(1))
        if report.outcome != "done":
            raise RuntimeError(f"a round failed: {report.error}")
        return report.bytes_up

    with contextlib.ExitStack() as stack:
        caller = stack.enter_context(httpx.Client(base_url=servers["plain"].url, timeout=600))
        take_part: dict[str, Callable[[], int]] = {"plain": lambda: _plain_round(caller, work)}
        for name, policy in OURS.items():
            server = servers[name]
            arguments = Trains(), server.authority, server.token("enrol.token")
            device = Device(server.url, folder / name, *arguments, policy=policy)
            stack.enter_context(device).enrol()
            take_part[name] = lambda device=device: secure(device)
        told.send(None)
        with contextlib.suppress(EOFError):
            while True:
                name = told.recv()
                before = time.process_time()
                up = take_part[name]()
                told.send((time.process_time() - before, up))


def _create_task(server: Server, name: str, clients: int, length: int, rounds: int) -> None:
    settings: dict[str, Any] = {"min_cohort": clients, "target_cohort": clients, "rounds": rounds}
    if name == "unmasked":
        settings["aggregation"] = name
    with server.operator() as operator:
        start = np.zeros(length, np.float32)
        operator.create_task("bench", MODEL, start, clip_norm=50.0, **settings)


class Work:
    """Epochs of gradient descent on a net of 784, h and 10 units with about `length` weights."""

    def __init__(self, length: int, examples: int, epochs: int) -> None:
        self.length = length
        self._epochs = epochs
        self._hidden = length // (784 + 10)
        rng = np.random.default_rng(0)
        self._x = rng.normal(0, 1, (examples, 784)).astype(np.float32)
        self._y = np.eye(10, dtype=np.float32)[rng.integers(0, 10, examples)]
        self._fixed = rng.normal(0, 0.001, length).astype(np.float32)

    def update(self, weights: Floats) -> Floats:
        """What they add to the weights, and noise, so that every weight moves."""
        ends = 784 * self._hidden, (784 + 10) * self._hidden
        first = weights[: ends[0]].reshape(784, -1)
        second = weights[ends[0] : ends[1]].reshape(-1, 10)
        for start in self._epochs * list(range(0, len(self._x), 32)):
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


@contextlib.contextmanager
def plain_server(clients: int, length: int) -> Iterator[Server]:
    """A process that adds up float32 updates."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    process = _processes.Process(target=_serve, args=(listener, clients, length), daemon=True)
    process.start()
    try:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        yield Server(Path(), url, b"", process.pid or 0)
    finally:
        process.terminate()
        process.join()
        listener.close()


def _serve(listener: socket.socket, clients: int, length: int) -> None:
    """Those of a round become weights when all of them are in."""
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
                weights[:] = [(weights[-1] + total / clients).astype(np.float32)]
                total[:], count[0] = 0, 0
        return Response(status_code=204)

    server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))
    server.run(sockets=[listener])


def _plain_round(caller: httpx.Client, work: Work) -> int:
    """The bytes of the update."""
    update = work.update(np.frombuffer(caller.get("/weights").content, np.float32))
    body = update.tobytes()
    caller.put("/update", content=body).raise_for_status()
    return len(body)


if __name__ == "__main__":
    main()
