"""Model files (`.ms`): write and read them, sign them. docs/model_file.md describes every byte.

The file's frame is here: index, segments and trailer, hashes and the signature. What the index
holds is in `index_writer` and `index_reader`.
"""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import Any

from ir.errors import FormatError
from ir.files import write_whole
from ir.graph import Model
from ir.index_writer import encode
from ir.verify import verify as verify_model

MAGIC = b"MSPNTAIL"
IDENTIFIER = b"MSPN"  # bytes 4..8
ROOT_LABEL = b"mindspan model root 1\0"
SIGNATURE_LABEL = b"mindspan model signature 1\0"
ALIGN_SEGMENT, ALIGN_TRAILER = 64, 8
_TRAILER = struct.Struct("<8sQQ32s32s64s32s")
_UNSIGNED = bytes(32), bytes(64)


def write(model: Model, *, sign_with: bytes | None = None, strip_names: bool = False) -> bytes:
    """The model's file. `sign_with`: an Ed25519 private key of 32 bytes.

    `strip_names` leaves out names of constants, frozen weights, inner values and sources of nodes.
    Raises GraphError for a graph that is wrong or cannot run in place, FormatError where a number
    does not fit.
    """
    verify_model(model)
    content = encode(model, strip_names=strip_names)
    offsets, end = [], len(content.index)
    for segment in content.segments:
        offsets.append(_round_up(end, ALIGN_SEGMENT))
        end = offsets[-1] + len(segment)
    index = content.placed(offsets)
    parts, at = [index], len(index)
    for offset, segment in zip(offsets, content.segments, strict=True):
        parts += [bytes(offset - at), segment]
        at = offset + len(segment)
    parts.append(bytes(_round_up(end, ALIGN_TRAILER) - at))
    file_size = _round_up(end, ALIGN_TRAILER) + _TRAILER.size
    parts.append(_trailer(len(index), file_size, _root(index, file_size), sign_with))
    return b"".join(parts)


def save(model: Model, path: str | Path, **options: Any) -> None:
    """Write the model's file to `path`, whole or not at all. Options are those of `write`."""
    write_whole(path, write(model, **options))


def read(data: bytes | memoryview, verify: bytes | None = None) -> Model:
    """The model in a file's bytes; its arrays are read-only views of them.

    `verify`: the Ed25519 public key (32 bytes) that must have signed the file. Raises FormatError
    for anything that is not exactly what `write` could have written, naming the place.
    """
    view = memoryview(data).cast("B").toreadonly()
    index_size, root, signer_key, signature = _checked_trailer(view)
    index = bytes(view[:index_size])
    if _root(index, len(view)) != root:
        raise FormatError("model file: the index does not have the root hash of the trailer")
    if verify is not None:
        _check_signature(root, signer_key, signature, verify)
    from ir.index_reader import decode  # whoever only writes reads nothing

    return decode(index, _checked_segments(view, index))


def load(path: str | Path, verify: bytes | None = None) -> Model:
    """The model in a file. Raises FormatError as `read` does, OSError where it cannot be read."""
    try:
        return read(Path(path).read_bytes(), verify)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None


def signer(data: bytes | memoryview) -> bytes | None:
    """The public key in a file's trailer, which is not checked; None where it is unsigned."""
    _, _, key, _ = _checked_trailer(memoryview(data).cast("B"))
    return None if key == _UNSIGNED[0] else key


def sign(data: bytes, private_key: bytes) -> bytes:
    """The same file, signed anew. Raises FormatError for a damaged trailer."""
    index_size, root, _, _ = _checked_trailer(memoryview(data))
    return data[: -_TRAILER.size] + _trailer(index_size, len(data), root, private_key)


def _trailer(index_size: int, file_size: int, root: bytes, sign_with: bytes | None) -> bytes:
    key, signature = _UNSIGNED if sign_with is None else _signature(root, sign_with)
    fields = _TRAILER.pack(MAGIC, index_size, file_size, root, key, signature, bytes(32))[:-32]
    return fields + hashlib.sha256(fields).digest()


def _checked_trailer(view: memoryview) -> tuple[int, bytes, bytes, bytes]:
    """Index size, root hash, signer and signature."""
    if len(view) < _TRAILER.size + 8 or bytes(view[4:8]) != IDENTIFIER:
        raise FormatError(f"model file: {len(view)} bytes without {IDENTIFIER!r} at byte 4")
    fields = bytes(view[-_TRAILER.size :])
    magic, index_size, file_size, root, key, signature, digest = _TRAILER.unpack(fields)
    if magic != MAGIC:
        raise FormatError(f"model file: the trailer starts with {magic!r}, want {MAGIC!r}")
    if hashlib.sha256(fields[:-32]).digest() != digest:
        raise FormatError("model file: the trailer does not have the hash that it states")
    if file_size != len(view):
        raise FormatError(f"model file: {len(view)} bytes, the trailer says {file_size}")
    if not 8 <= index_size <= file_size - _TRAILER.size:
        raise FormatError(f"model file: an index of {index_size} bytes in a file of {file_size}")
    if (key == _UNSIGNED[0]) != (signature == _UNSIGNED[1]):
        raise FormatError("model file: the trailer has a key or a signature, but not both")
    return index_size, root, key, signature


def _checked_segments(view: memoryview, index: bytes) -> list[memoryview]:
    """The segments, at the only places where they may be, with zeros between them."""
    from ir.index_reader import segment_rows

    segments, end = [], len(index)
    for i, (offset, size, digest) in enumerate(segment_rows(index)):
        place = f"model file, segment {i}"
        start = _round_up(end, ALIGN_SEGMENT)
        if offset != start or size > len(view) - _TRAILER.size - start:
            raise FormatError(f"{place}: bytes {offset} to {offset + size}, want them at {start}")
        segment = view[offset : offset + size]
        if hashlib.sha256(segment).digest() != digest:
            raise FormatError(f"{place}: does not have the hash that the index states")
        _check_zeros(view[end:start], place)
        segments.append(segment)
        end = start + size
    if _round_up(end, ALIGN_TRAILER) + _TRAILER.size != len(view):
        raise FormatError(f"model file: the segments end at {end}, the file at {len(view)}")
    _check_zeros(view[end : -_TRAILER.size], "model file, trailer")
    return segments


def _check_zeros(padding: memoryview, place: str) -> None:
    if any(padding):
        raise FormatError(f"{place}: the padding before it is not zero")


def _root(index: bytes, file_size: int) -> bytes:
    sizes = struct.pack("<QQ", file_size, len(index))
    return hashlib.sha256(ROOT_LABEL + sizes + index).digest()


def _signature(root: bytes, private_key: bytes) -> tuple[bytes, bytes]:
    """The public key of `private_key`, and its signature of the root hash."""
    if len(private_key) != 32:
        raise ValueError(f"Ed25519 private key of {len(private_key)} bytes, want 32")
    key = _ed25519().Ed25519PrivateKey.from_private_bytes(private_key)
    return key.public_key().public_bytes_raw(), key.sign(SIGNATURE_LABEL + root)


def _check_signature(root: bytes, key: bytes, signature: bytes, wanted: bytes) -> None:
    if len(wanted) != 32:
        raise ValueError(f"Ed25519 public key of {len(wanted)} bytes, want 32")
    if key != wanted or key == _UNSIGNED[0]:
        who = "nobody" if key == _UNSIGNED[0] else key.hex()
        raise FormatError(f"model file: signed by {who}, want {wanted.hex()}")
    public_key = _ed25519().Ed25519PublicKey.from_public_bytes(key)
    from cryptography.exceptions import InvalidSignature

    try:
        public_key.verify(signature, SIGNATURE_LABEL + root)
    except InvalidSignature:
        raise FormatError("model file: the signature is not one of this file") from None


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise ImportError(
            "signatures need the package cryptography: pip install 'mindspan[sign]'"
        ) from None
    return ed25519


def _round_up(n: int, unit: int) -> int:
    return n + -n % unit
