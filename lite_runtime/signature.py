"""Who signed a model file. docs/model_file.md describes the trailer."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from lite_runtime._core import LiteError
from lite_runtime.files import read_file

_TRAILER = struct.Struct("<8sQQ32s32s64s32s")  # magic, sizes, root hash, key, signature, hash
_LABEL = b"mindspan model signature 1\0"
_KEY_BYTES, _MOST_KEY_BYTES = 32, 65536


def signer(file: bytes) -> str | None:
    """The public key that a file names as its signer's, in hex; None where it is not signed.

    The file is one that a session has opened: its hashes are right.
    """
    key = _trailer(file)[4]
    return key.hex() if any(key) else None


def verify(file: bytes, key: bytes) -> None:
    """Raise LiteError unless this Ed25519 public key signed the file's root hash."""
    _, _, _, root, named, signature, _ = _trailer(file)
    ed25519, InvalidSignature = _cryptography()
    try:
        if named != key:
            raise InvalidSignature
        ed25519.Ed25519PublicKey.from_public_bytes(key).verify(signature, _LABEL + root)
    except (InvalidSignature, ValueError):
        who = f"signed by {named.hex()}" if any(named) else "not signed"
        raise LiteError(f"signature: the file is {who}; want a valid one by {key.hex()}") from None


def read_key(text: str) -> bytes:
    """A public key from 64 hex digits, or from a file that holds it raw, in hex or as PEM."""
    if not _is_hex(text) and not Path(text).is_file():
        raise LiteError(f"key {text}: no such file, and not a key of {2 * _KEY_BYTES} hex digits")
    data = text.encode() if _is_hex(text) else read_file(text, _MOST_KEY_BYTES)
    if len(data) == _KEY_BYTES:
        return data
    if _is_hex(words := data.decode("ascii", "replace").strip()):
        return bytes.fromhex(words)
    if data.startswith(b"-----BEGIN PUBLIC KEY"):
        return _pem_key(data, text)
    raise LiteError(f"key {text}: want an Ed25519 public key, raw (32 bytes), in hex or as PEM")


def _pem_key(data: bytes, place: str) -> bytes:
    ed25519, _ = _cryptography()
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(data)
    except ValueError:
        key = None
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise LiteError(f"key {place}: want an Ed25519 public key")
    return bytes(key.public_bytes_raw())


def _trailer(file: bytes) -> tuple[Any, ...]:
    if len(file) < _TRAILER.size:
        raise LiteError(f"file of {len(file)} bytes: too short for a model")
    return _TRAILER.unpack(file[-_TRAILER.size :])


def _is_hex(text: str) -> bool:
    return len(text) == 2 * _KEY_BYTES and all(c in "0123456789abcdefABCDEF" for c in text)


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise ImportError(
            "--verify needs the package cryptography: pip install 'mindspan[sign]'"
        ) from None
    return ed25519, InvalidSignature
