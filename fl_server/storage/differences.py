"""One version of weights as the difference to another that a device has: the same bytes, but fewer.

Of float32 values that changed a little, sign, exponent and the first bits are the same: the
exclusive or of both has zeros there, which are put together and compressed.
"""

from __future__ import annotations

import asyncio
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fl_server.errors import Malformed, NotFound
from fl_server.storage.store import Store

_LEVEL = 1  # zlib's; the sixth takes twice as long to save a fiftieth more
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
    return zlib.compress(changed.reshape(-1, 4).T.tobytes(), _LEVEL)


def patched(base: bytes, change: bytes) -> bytes:
    """The vector that `difference` was made of     raises Malformed"""
    inflate = zlib.decompressobj()
    try:
        planes = inflate.decompress(change, len(base) + 1)
    except zlib.error as error:
        raise Malformed(f"a difference of {len(change)} bytes: {error}") from None
    if len(planes) != len(base) or not inflate.eof or inflate.unused_data:
        raise Malformed(f"a difference that is not one of {len(base)} bytes")
    changed = np.frombuffer(planes, np.uint8).reshape(4, -1).T.reshape(-1)
    return bytes(np.frombuffer(base, np.uint8) ^ changed)
