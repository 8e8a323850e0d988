"""One version of weights as the difference to another that a device has: the same bytes, but fewer.

Of float32 values that changed a little, sign, exponent and the first bits are the same: the
exclusive or of both has zeros there, which are put together and compressed.
"""

from __future__ import annotations

import threading
import zlib
from functools import lru_cache

import numpy as np

from fl_server.errors import Malformed, NotFound
from fl_server.storage.store import Store

_LEVEL = 1  # zlib's; the sixth takes twice as long to save a fiftieth more
_KEPT = 4  # all devices of a round ask for the same one


class Differences:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._made = lru_cache(_KEPT)(self._make)

    def of(self, base: bytes, digest: bytes) -> bytes:
        """What `patched` makes the newer weights of.

        raises NotFound where either is unknown, or they are no two vectors of one length
        """
        with self._lock:  # whoever comes second does not make it again
            return self._made(base, digest)

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
