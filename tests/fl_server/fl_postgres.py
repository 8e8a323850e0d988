"""A PostgreSQL of the tests' own: a cluster in a temporary folder, and a database for each test."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fl_ports import unused_port

psycopg = pytest.importorskip("psycopg")

OPTIONS = "-c fsync=off -c max_connections=200 -c listen_addresses=127.0.0.1"


class Cluster:
    """A server on a port that stays the same when it is killed and started again."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._folder = programs, folder
        self.port = unused_port()
        # PostgreSQL does not run as root.
        self._user = "nobody" if os.getuid() == 0 else None
        if self._user:
            os.chown(folder, pwd.getpwnam(self._user).pw_uid, -1)
        how = ["--auth=trust", "--no-sync", "--encoding=UTF8", "--username=tests"]
        self._run("initdb", "-D", str(folder / "data"), *how)
        self.start()

    def start(self) -> None:
        options = f"-p {self.port} -k {self._folder} {OPTIONS}"
        self._pg_ctl("-w", "-l", str(self._folder / "log"), "-o", options, "start")

    def kill(self) -> None:
        """End it at once, as a power cut would end it for its clients."""
        first = (self._folder / "data/postmaster.pid").read_text().split()[0]
        os.kill(int(first), signal.SIGQUIT)
        while Path(f"/proc/{first}").exists():
            os.sched_yield()

    def stop(self) -> None:
        self._pg_ctl("-m", "immediate", "stop")

    def database(self, name: str) -> str:
        """The URL of a new and empty database."""
        url = f"postgresql://tests@127.0.0.1:{self.port}"
        with psycopg.connect(f"{url}/postgres", autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            connection.execute(f'CREATE DATABASE "{name}"')
        return f"{url}/{name}"

    def _pg_ctl(self, *arguments: str) -> None:
        self._run("pg_ctl", "-D", str(self._folder / "data"), *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        done = subprocess.run(
            command,
            user=self._user,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
        )
        assert done.returncode == 0, (program, done.stderr)


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    """A cluster that is gone afterwards. Skips where PostgreSQL is not installed."""
    found = shutil.which("initdb") or next(
        (str(p) for p in sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))), None
    )
    if found is None:
        pytest.skip("PostgreSQL is missing: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="mindspan-pg-"))
    try:
        made = Cluster(Path(found).resolve().parent, folder)
        try:
            yield made
        finally:
            with contextlib.suppress(AssertionError):
                made.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
