"""One version of weights as the difference to another that a device has: the same bytes, but fewer.

Of float32 values that changed a little, sign, exponent and the first bits are the same: the
exclusive or of both has zeros there. Its first bytes are put together, its second ones and so on,
and compressed as one stream of zlib's.
"""

from __future__ import annotations

import asyncio
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fl_server.errors import Malformed, NotFound
from fl_server.storage.store import Store

# A zlib stream of several runs of deflate: its two bytes before them, and an empty last block.
_HEAD, _LAST_BLOCK = b"\x78\x01", b"\x03\x00"
_WORTH = 7 / 8  # of the bytes: to decode one that saves less takes more than to send it
_BLOCK = 1 << 16  # numbers, which stay in the second-level cache
_KEPT = 4  # all devices of a round ask for the same one
# So many are made at a time, or wait for that, each of them for whoever asks for it.
_MOST_WAITING = 2


class Differences:
    """They are made in a thread of their own: what they take is taken from no other request."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(1, "differences")
        # By both digests, those asked for last at the end.
        self._made: dict[tuple[bytes, bytes], asyncio.Future[bytes]] = {}

    async def of(self, base: bytes, digest: bytes) -> bytes:
        """What `patched` makes the newer weights of.

        raises NotFound where either is unknown, they are no two vectors of one length, or too many
        others are being made: the weights themselves are there
        """
        pair = base, digest
        made = self._made.pop(pair, None) or self._begin(pair)
        self._made[pair] = made
        return await asyncio.shield(made)  # others may wait for it, too

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _begin(self, pair: tuple[bytes, bytes]) -> asyncio.Future[bytes]:
        done = [other for other, made in self._made.items() if made.done()]
        if len(self._made) - len(done) >= _MOST_WAITING:
            raise NotFound("other differences are being made; ask for the whole")
        for old in done[: max(0, len(self._made) + 1 - _KEPT)]:
            del self._made[old]
        begun = asyncio.get_running_loop().run_in_executor(self._threads, self._make, *pair)

        def forget(made: asyncio.Future[bytes]) -> None:
            if made.cancelled() or made.exception() is not None:
                self._made.pop(pair, None)

        begun.add_done_callback(forget)
        return begun

    def _make(self, base: bytes, digest: bytes) -> bytes:
        size = self._store.blob_size(base)
        if size % 4 or size != self._store.blob_size(digest):
            raise NotFound(f"what is kept under {base.hex()} are no weights of the same length")
        return difference(self._store.get_blob(base), self._store.get_blob(digest))


def difference(base: bytes, new: bytes) -> bytes:
    """Of two vectors of float32, of one length."""
    changed = np.frombuffer(base, np.uint8) ^ np.frombuffer(new, np.uint8)
    planes = [plane.tobytes() for plane in changed.reshape(-1, 4).T]
    check = zlib.adler32(b"".join(planes)).to_bytes(4, "big")
    return b"".join((_HEAD, *map(_deflated, planes), _LAST_BLOCK, check))


def _deflated(plane: bytes) -> bytes:
    """A plane as whole blocks of deflate, stored as it is where that takes little more: low bits
    are random, and are then neither searched for repetitions nor decoded bit by bit."""
    # Runs of zeros are all that repeats; to look for more takes three times as long.
    made = _blocks(plane, 1, zlib.Z_RLE)
    return made if len(made) < _WORTH * len(plane) else _blocks(plane, 0, zlib.Z_DEFAULT_STRATEGY)


def _blocks(plane: bytes, level: int, strategy: int) -> bytes:
    raw = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, strategy=strategy)
    return raw.compress(plane) + raw.flush(zlib.Z_FULL_FLUSH)


def patched(base: bytes, change: bytes) -> bytes:
    """The vector that `difference` was made of     raises Malformed"""
    inflate = zlib.decompressobj()
    try:
        planes = inflate.decompress(change, len(base) + 1)
    except zlib.error as error:
        raise Malformed(f"a difference of {len(change)} bytes: {error}") from None
    if len(base) % 4 or len(planes) != len(base) or not inflate.eof or inflate.unused_data:
        raise Malformed(f"a difference that is not one of {len(base)} bytes")
    rows = np.frombuffer(planes, np.uint8).reshape(4, -1)
    values = np.frombuffer(base, "<u4").copy()
    for first in range(0, len(values), _BLOCK):
        block = values[first : first + _BLOCK]
        for at, row in enumerate(rows):
            block ^= row[first : first + _BLOCK].astype("<u4") << np.uint32(8 * at)
    return values.tobytes()
