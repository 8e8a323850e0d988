"""The hook that decides whether a device may have a certificate: a command of the operator's."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence

from fl_server import messages as wire
from fl_server.errors import SettingsError, Unauthorised

_TIMEOUT_S = 30.0


def attest(command: Sequence[str], request: wire.Enrol, tenant: str) -> None:
    """Nothing, if the command ends with 0. It reads a line of JSON: the device's key, population
    and tenant, and its evidence in hexadecimal, such as an attestation of the platform's.

    raises Unauthorised, SettingsError
    """
    if not command:
        return
    asked = {
        "public_key": request.public_key.hex(),
        "population": request.population,
        "tenant": tenant,
        "evidence": request.evidence.hex(),
    }
    try:
        done = subprocess.run(
            command,
            input=json.dumps(asked) + "\n",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SettingsError(f"attestation: {command[0]}: {error}") from None
    if done.returncode:
        why = " ".join(done.stderr.split())[:200] or f"exit code {done.returncode}"
        raise Unauthorised(f"the attestation is refused: {why}")
