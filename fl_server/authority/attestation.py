"""The hook that decides whether a device may have a certificate: a command of the operator's."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from fl_server import messages as wire
from fl_server.errors import HookFailed, SettingsError, TooMany, Unauthorised

_log = logging.getLogger(__name__)
# So many devices are looked at together, and so many more wait for that.
_AT_ONCE, _MOST_WAITING = 8, 64


class Attestor:
    """The hook of a server, in threads of its own: what it takes is taken from no other request.

    command: none where it is empty · limit_s: how long it may take for one device
    """

    def __init__(self, command: Sequence[str], limit_s: float) -> None:
        check_command(command)
        self._command, self._limit_s = command, limit_s
        self._threads = ThreadPoolExecutor(_AT_ONCE, "attestation")
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._command)

    async def check(self, asked: wire.Asked, tenant: str) -> None:
        """Nothing, if the device may enrol.     raises Unauthorised, HookFailed, TooMany"""
        if self._count >= _AT_ONCE + _MOST_WAITING:
            raise TooMany(f"{self._count} devices wait for the attestation hook", 1.0)
        self._count += 1
        try:
            arguments = self._command, asked, tenant, self._limit_s
            await asyncio.get_running_loop().run_in_executor(self._threads, attest, *arguments)
        except HookFailed as error:
            _log.error("%s", error)
            # What the command is called is nobody else's business.
            raise HookFailed("the attestation cannot be looked at now; come again") from None
        finally:
            self._count -= 1

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def check_command(command: Sequence[str]) -> None:
    """Nothing, if there is such a command, or none is wanted.     raises SettingsError"""
    if command and shutil.which(command[0]) is None:
        raise SettingsError(f"attestation: {command[0]}: no command that can be run")


def attest(command: Sequence[str], asked: wire.Asked, tenant: str, limit_s: float = 30.0) -> None:
    """Nothing, if the command ends with 0. It reads a line of JSON: the device's key, population
    and tenant, and its attestation in hexadecimal, which is empty where it sent none.

    raises Unauthorised, HookFailed where the command does not run or takes longer than `limit_s`
    """
    if not command:
        return
    told = {
        "public_key": asked.public_key.hex(),
        "population": asked.population,
        "tenant": tenant,
        "attestation": asked.attestation.hex(),
    }
    code, said = _run(command, json.dumps(told) + "\n", limit_s)
    if code:
        why = " ".join(said.split())[:200] or f"exit code {code}"
        raise Unauthorised(f"the attestation is refused: {why}")


def _run(command: Sequence[str], line: str, limit_s: float) -> tuple[int, str]:
    """How a command ended, and what it wrote to standard error."""
    try:
        # In a group of its own: what it has started ends with it.
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise HookFailed(f"attestation: {command[0]}: {error.strerror or error}") from None
    with process:
        try:
            _, said = process.communicate(line, timeout=limit_s)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise HookFailed(f"attestation: {command[0]}: no answer in {limit_s:g} s") from None
    return process.returncode, said
