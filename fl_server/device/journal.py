"""What a device keeps in its folder: identity, certificate, and what it must never forget."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import IO

from fl_server.errors import Malformed, SettingsError
from fl_server.secagg.certificate import Certificate
from fl_server.secagg.keys import KEY_SIZE, Identity, RandomBytes
from fl_server.secagg.policy import Memory
from fl_server.storage.files import write_file


class Journal(Memory):
    """A Memory that is on the disk before any call returns."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        if not path.exists():
            return
        try:
            kept = json.loads(path.read_text())
            self._rounds = {str(task): int(number) for task, number in kept["rounds"].items()}
            self._spent = {
                (task, bytes.fromhex(model)): bytes.fromhex(vector)
                for task, model, vector in kept["spent"]
            }
            self._revocations = int(kept["revocations"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            # To go on with an empty one would be to forget what is spent.
            raise SettingsError(f"{path} is damaged; enrol this device anew") from None

    def save(self) -> None:
        kept = {
            "rounds": self._rounds,
            "spent": [[t, model.hex(), y.hex()] for (t, model), y in self._spent.items()],
            "revocations": self._revocations,
        }
        write_file(self._path, json.dumps(kept).encode(), mode=0o600)


def lock_folder(folder: Path) -> IO[bytes]:
    """The folder's lock, held until it is closed: two devices on one journal would both spend.

    raises SettingsError where another device, of this process or another, holds it
    """
    lock = (folder / "lock").open("wb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise SettingsError(f"{folder} is in use by another device") from None
    return lock


def load_identity(folder: Path, random: RandomBytes) -> Identity:
    """The device's key, made on the first call; only its owner may read the file."""
    path = folder / "identity.key"
    if not path.exists():
        write_file(path, random(KEY_SIZE), mode=0o600)
    seed = path.read_bytes()
    if len(seed) != KEY_SIZE:
        raise SettingsError(f"{path}: {len(seed)} bytes, an identity has {KEY_SIZE}")
    return Identity(seed)


def load_certificate(folder: Path) -> Certificate | None:
    """The certificate that was kept, or None."""
    path = folder / "certificate"
    if not path.exists():
        return None
    try:
        return Certificate.from_bytes(path.read_bytes())
    except Malformed as error:
        raise SettingsError(f"{path} is damaged ({error}); without it the device enrols") from None


def keep_certificate(folder: Path, certificate: Certificate) -> None:
    write_file(folder / "certificate", certificate.to_bytes())
