"""Loads a real server: check-ins at a rate, by many devices, and one round of scripted devices.

    python -m bench.load --check-ins 10000 --minutes 1      latency of check-ins
    python -m bench.load --round 250 --length 10000         one round, the server's memory

The server is `ms-serve` in processes of its own over PostgreSQL (`--database URL`, else a cluster
in a temporary folder). Check-ins come at random times that do not wait for answers; latency counts
from when one was due. Everything runs on this machine, so figures hold what the callers took, too.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fl_server import messages as wire
from fl_server.device import Device, Policy
from fl_server.operator import Operator
from fl_server.secagg import labels
from fl_server.secagg.encode import Update
from fl_server.secagg.keys import Identity

ROOT = Path(__file__).parents[1]
CONNECTIONS = 64
# Devices of one process. Of many more, most wake up in vain for the interpreter's lock.
THREADS = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check-ins", type=int, default=0, help="a minute")
    parser.add_argument("--minutes", type=float, default=1.0, help="(%(default)s)")
    parser.add_argument("--devices", type=int, default=2000, help="that check in (%(default)s)")
    parser.add_argument("--round", type=int, default=0, help="devices in one round")
    parser.add_argument("--length", type=int, default=10_000, help="weights (%(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="of the server (%(default)s)")
    parser.add_argument("--database", default="", help="a PostgreSQL URL, else one of its own")
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory() as place,
        database(options.database) as url,
        serving(Path(place), url, options.workers) as server,
    ):
        if options.check_ins:
            figures |= check_ins(server, options)
        if options.round:
            figures |= one_round(server, options.round, options.length, Path(place))
    print(json.dumps(figures, indent=1))


class Server:
    def __init__(self, folder: Path, url: str, authority: bytes, process: int) -> None:
        self.folder, self.url, self.authority, self.process = folder, url, authority, process

    def token(self, name: str) -> str:
        return (self.folder / name).read_text().strip()

    def operator(self) -> Operator:
        return Operator(self.url, self.token("admin.token"))

    def cpu_s(self) -> float:
        """The time on processors of all its processes, the database's not counted."""
        ticks = 0
        for pid in self._processes():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def _processes(self) -> list[int]:
        command = ["pgrep", "-P", str(self.process)]
        listed = subprocess.run(command, capture_output=True, text=True).stdout
        return [self.process, *map(int, listed.split())]

    def peak_mb(self) -> float:
        """The largest peak of its processes' memory."""
        peaks = []
        for pid in self._processes():
            with contextlib.suppress(OSError):
                status = Path(f"/proc/{pid}/status").read_text()
                peaks.append(int(status.partition("VmHWM:")[2].split()[0]) / 1024)
        return max(peaks)


@contextlib.contextmanager
def database(given: str) -> Iterator[str]:
    if given:
        yield given
        return
    sys.path.insert(0, str(ROOT / "tests/fl_server"))
    import fl_postgres

    fl_postgres.OPTIONS = fl_postgres.OPTIONS.replace("-c fsync=off ", "")
    with fl_postgres.cluster() as cluster:
        yield cluster.database("load")


@contextlib.contextmanager
def serving(place: Path, database_url: str = "", workers: int = 1) -> Iterator[Server]:
    """`ms-serve` in processes of its own, over SQLite if no database is given."""
    folder = place / "server"
    command = [sys.executable, "-m", "fl_server", "serve", "--folder", str(folder), "--port", "0"]
    command += ["--database", database_url, "--workers", str(workers)]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env)
    assert process.stderr is not None
    where = process.stderr.readline()
    url = where.split()[1].rstrip(",")
    try:
        yield Server(folder, url, bytes.fromhex(where.split()[-1]), process.pid)
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()


def check_ins(server: Server, options: argparse.Namespace) -> dict[str, Any]:
    """Devices that are enrolled ask for work and are offered a round."""
    with server.operator() as operator:
        start = np.zeros(options.length, np.float32)
        settings = {"min_cohort": 256, "target_cohort": 256, "join_s": 86400}
        operator.create_task("load", b"model", start, **settings)
    people = [Identity(hashlib.sha256(b"%d" % i).digest()) for i in range(options.devices)]
    seconds, used = asyncio.run(_check_ins(server, people, options))
    late = sorted(1000 * s for s in seconds)
    return {
        "check-ins a minute": round(len(late) / options.minutes),
        "check-ins": len(late),
        "p50, ms": round(late[len(late) // 2], 1),
        "p99, ms": round(late[int(0.99 * len(late))], 1),
        "most, ms": round(late[-1], 1),
        "server's processors, ms each": round(1000 * used / len(late), 2),
        "server's peak, MB": round(server.peak_mb(), 1),
    }


async def _check_ins(
    server: Server, people: list[Identity], options: argparse.Namespace
) -> tuple[list[float], float]:
    """The seconds of each check-in, and those of the server's processors for all of them."""
    pool: asyncio.LifoQueue[Connection] = asyncio.LifoQueue()
    host, port = server.url.removeprefix("http://").split(":")
    for _ in range(CONNECTIONS):
        pool.put_nowait(Connection(host, int(port)))
    token = server.token("enrol.token").encode()
    numbers = await asyncio.gather(*(_enrol(pool, identity, token) for identity in people))
    members = list(zip(numbers, people, strict=True))
    drawn, seconds = random.Random(0), []
    body = wire.CheckIn("", 0, b"").to_bytes()
    start, before = asyncio.get_running_loop().time() + 1, server.cpu_s()

    async def ask(due: float, client: int, identity: Identity) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(due - loop.time())
        signed = wire.request_signed("POST", "/checkin", counter := time.time_ns(), body)
        signature = identity.sign(labels.REQUEST, signed).hex()
        connection = await pool.get()
        answer = await connection.post("/checkin", body, f"MS1 {client} {counter} {signature}")
        pool.put_nowait(connection)
        assert wire.CheckInReply.from_bytes(answer).kind == wire.OFFER
        seconds.append(loop.time() - due)

    count = round(options.check_ins * options.minutes)
    times = sorted(drawn.uniform(0, 60 * options.minutes) for _ in range(count))
    whom = [members[i % len(members)] for i in range(count)]
    await asyncio.gather(*(ask(start + t, *who) for t, who in zip(times, whom, strict=True)))
    return seconds, server.cpu_s() - before


async def _enrol(pool: asyncio.LifoQueue[Connection], identity: Identity, token: bytes) -> int:
    message = wire.Enrol.of(identity, "default", token).to_bytes()
    connection = await pool.get()
    answer = await connection.post("/enrol", message, "")
    pool.put_nowait(connection)
    return wire.Enrolled.from_bytes(answer).certificate.subject.client


class Connection:
    """HTTP/1.1 with no more than is needed, so that the callers take little of the machine."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: bytes, authorization: str) -> bytes:
        """The answer; a connection that was idle for too long is opened again."""
        if self._streams is not None:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                return await self._post(*self._streams, path, body, authorization)
        self._streams = await asyncio.open_connection(self._host, self._port)
        return await self._post(*self._streams, path, body, authorization)

    async def _post(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        path: str,
        body: bytes,
        authorization: str,
    ) -> bytes:
        head = f"POST {path} HTTP/1.1\r\nhost: {self._host}\r\ncontent-length: {len(body)}\r\n"
        writer.write(f"{head}authorization: {authorization}\r\n\r\n".encode() + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        length = next(int(x.split(":")[1]) for x in lines if x.startswith("content-length"))
        answer = await reader.readexactly(length)
        assert lines[0].split()[1] == "200", answer
        return answer


class Scripted:
    """A device that has trained already."""

    def __init__(self, i: int, length: int) -> None:
        self.delta = np.random.default_rng(i).normal(0, 0.01, length).astype(np.float32)

    def train(self, weights: np.ndarray, model: bytes) -> Update:
        return Update(self.delta)


def one_round(server: Server, count: int, length: int, place: Path) -> dict[str, Any]:
    """One round of `count` devices, from the first advert to the new weights."""
    before, used = server.peak_mb(), server.cpu_s()
    stages = dict.fromkeys(("join_s", "share_s", "vector_s", "agree_s", "reveal_s"), 3600)
    with server.operator() as operator:
        sizes = {"min_cohort": count, "target_cohort": count, **stages}
        operator.create_task("round", b"model", np.zeros(length, np.float32), **sizes)
        token = server.token("enrol.token")
        some = [range(i, min(i + THREADS, count)) for i in range(0, count, THREADS)]
        part = partial(_take_part, server.url, server.authority, token, length, place)
        start = time.perf_counter()
        with ProcessPoolExecutor(len(some), multiprocessing.get_context("spawn")) as pool:
            outcomes = [outcome for each in pool.map(part, some) for outcome in each]
        (entry,) = operator.wait("round")["rounds"]
        after = operator.weights("round")
    wanted = np.mean([Scripted(i, length).delta for i in range(count)], axis=0)
    return {
        "devices in one round": count,
        "weights": length,
        "done": outcomes.count("done"),
        "survivors": entry["survivors"],
        "seconds, all": round(time.perf_counter() - start, 1),
        "seconds by stage": entry["seconds"],
        "largest error of a weight": float(np.abs(after - wanted).max()),
        "server's memory before, MB": round(before, 1),
        "server's peak, MB": round(server.peak_mb(), 1),
        "server's processors, s": round(server.cpu_s() - used, 1),
    }


def _take_part(
    url: str, authority: bytes, token: str, length: int, place: Path, numbers: range
) -> list[str]:
    """How the round went for these devices, each in a thread of this process."""

    def one(i: int) -> str:
        known = url, place / f"d{i}", Scripted(i, length), authority, token
        with Device(*known, policy=Policy(2), patience_s=3600) as device:
            return next(device.run()).outcome

    with ThreadPoolExecutor(len(numbers)) as pool:
        return list(pool.map(one, numbers))


if __name__ == "__main__":
    main()
