"""A server over loopback and a fleet of devices with small learners, for the tests over HTTP."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
from fl_people import seeded
from fl_ports import unused_port

from fl_server.device import Device, Policy, Report
from fl_server.device.linear import LinearTrainer, synthetic_device
from fl_server.http.serving import Serving
from fl_server.operator import Operator
from fl_server.secagg.encode import SEED_SIZE, Update, encode
from fl_server.secagg.run import Stage
from fl_server.settings import Settings

MODEL = b"a model file, opaque to the server"
LENGTH = 16
FLOOR = 2


class Keeping:
    """A trainer that keeps the updates it made."""

    def __init__(self, trainer: LinearTrainer) -> None:
        self.trainer = trainer
        self.updates: list[Update] = []

    def train(self, weights: np.ndarray, model: bytes) -> Update:
        assert model.startswith(MODEL)
        self.updates.append(self.trainer.train(weights, model))
        return self.updates[-1]

    def measure(self, weights: np.ndarray, model: bytes) -> Update:
        return self.trainer.measure(weights, model)


class Drawn:
    """Seeded random bytes that are kept."""

    def __init__(self, seed: object) -> None:
        self._source = seeded(seed)
        self.draws: list[bytes] = []

    def __call__(self, size: int) -> bytes:
        self.draws.append(self._source(size))
        return self.draws[-1]


class Fleet:
    """Devices 0..count-1 of one server; each keeps its updates and its randomness, which
    those of a folder of another name do not share."""

    def __init__(
        self,
        url: str,
        authority: bytes,
        token: str,
        folder: Path,
        count: int,
        stop_after: dict[int, Stage] | None = None,
        on_stage: Callable[[int, Stage], None] = lambda i, stage: None,
        floor: int = FLOOR,
    ) -> None:
        self.trainers = [Keeping(synthetic_device(i, LENGTH)) for i in range(count)]
        self.random = [Drawn(f"{folder.name}/{i}") for i in range(count)]
        self.stop = threading.Event()
        self.devices = [
            Device(
                url,
                folder / f"device-{i}",
                self.trainers[i],
                authority,
                token,
                policy=Policy(floor),
                stop_after=(stop_after or {}).get(i),
                on_stage=lambda stage, i=i: on_stage(i, stage),
                random=self.random[i],
                patience_s=30,
                stop=self.stop,
            )
            for i in range(count)
        ]

    def run(self) -> list[list[Report]]:
        """Let all take part until the server has no more work, for four minutes at the most."""
        late = threading.Timer(240, self.stop.set)
        late.daemon = True
        late.start()

        def take_part(device: Device) -> list[Report]:
            with device:
                return list(device.run(until_idle=True))

        try:
            with ThreadPoolExecutor(len(self.devices)) as pool:
                return list(pool.map(take_part, self.devices))
        finally:
            late.cancel()

    def encoded(self, i: int, params, session: bytes, round_index: int = 0) -> np.ndarray:
        """What device i must have encoded in a round: its rounding seed is its last draw there."""
        seeds = [d for d in self.random[i].draws if len(d) == SEED_SIZE]
        # Identity once, then three secrets and one seed a round; from four clients on what hides
        # secrets in shares is longer than a seed.
        seed = seeds[1 + 4 * round_index + 3]
        return encode(self.trainers[i].updates[round_index], params, session, seed)


def serving(folder: Path, **settings: object) -> Serving:
    fields = {"poll_s": 5.0, "retry_s": 0.05} | settings
    return Serving(Settings(folder / "server", **fields))


def fleet_of(server: Serving, folder: Path, count: int, **more: object) -> Fleet:
    return Fleet(server.url, server.authority, server.enrol_token, folder, count, **more)


def task_settings(count: int, **changes: object) -> dict[str, object]:
    return {
        "min_cohort": 3,
        "target_cohort": count,
        "share_s": 20,
        "vector_s": 20,
        "agree_s": 20,
        "reveal_s": 20,
    } | changes


class Killable:
    """ms-serve as a process of its own, on a port that stays the same."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.port = unused_port()
        self._options = options
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "fl_server", "serve", "--folder", str(self.folder)]
        command += ["--port", str(self.port), "--poll-s", "5", *self._options]
        root = Path(__file__).parents[2]
        env = os.environ | {"PYTHONPATH": str(root)}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env)
        line = self.process.stderr.readline()
        where = json.loads(line)["message"] if line.startswith("{") else line[len("ms-serve: ") :]
        assert where.startswith(("http://127.0.0.1:", "https://127.0.0.1:")), line
        self.authority = bytes.fromhex(where.split()[-1])

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stderr.close()

    def read(self, name: str) -> str:
        return (self.folder / name).read_text().strip()

    def operator(self) -> Operator:
        return Operator(f"http://127.0.0.1:{self.port}", self.read("admin.token"))


class FlakyProxy:
    """Relays TCP to a server and cuts the connection in place of every third answer."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cut = 0
        self._count = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._relay, args=(connection,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._port)) as upstream:
            up = threading.Thread(target=_pump, args=(client, upstream), daemon=True)
            up.start()
            with suppress(OSError):
                while answer := upstream.recv(65536):
                    self._count += 1
                    if self._count % 3 == 0:
                        # The server has taken the message; the device cannot know.
                        self.cut += 1
                        break
                    client.sendall(answer)
                for end in (client, upstream):
                    end.shutdown(socket.SHUT_RDWR)
            up.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
