"""What a device fetches by digest: model files, which it keeps, and vectors of weights."""

from __future__ import annotations

from pathlib import Path

from fl_server.device.http import Http
from fl_server.device.local import file_name
from fl_server.errors import Malformed, ModelMismatch, ServerRefused
from fl_server.secagg.encode import Floats
from fl_server.storage.differences import patched
from fl_server.storage.files import write_file
from fl_server.storage.weights import digest_of, weights_vector


class Downloads:
    """models, weights: the folders where model files are kept, and the last weights of each task"""

    def __init__(self, http: Http, models: Path, weights: Path) -> None:
        self._http = http
        self._models = models
        self._weights = weights
        # Of what was kept for each task; a file that is not that any more makes no newer weights.
        self._digests: dict[str, bytes] = {}

    def model(self, digest: bytes) -> bytes:
        """A model file.     raises ModelMismatch"""
        path = self._models / digest.hex()
        if not path.exists():
            write_file(path, self._fetched(digest))
        model = path.read_bytes()
        if digest_of(model) != digest:
            path.unlink()
            raise ModelMismatch(f"the kept model {digest.hex()[:12]} is damaged; it is removed")
        return model

    def vector(self, digest: bytes) -> Floats:
        """float32 [d]     raises ModelMismatch, Malformed"""
        return weights_vector(self._fetched(digest))

    def weights(self, digest: bytes, task: str) -> Floats:
        """The weights of a task, float32 [d]: those that are here, or the difference to them where
        the server knows them, or the whole.     raises ModelMismatch, Malformed"""
        path = self._weights / file_name(task)
        kept = path.read_bytes() if path.exists() else b""
        known = self._digests.get(task)
        if known is None or known == digest:
            known = digest_of(kept)
        data = kept if known == digest else self._newer(kept, known, digest)
        if data is not kept:
            write_file(path, data)
        self._digests[task] = digest
        return weights_vector(data)

    def _newer(self, kept: bytes, known: bytes, digest: bytes) -> bytes:
        if kept:
            path = f"/models/{digest.hex()}?base={known.hex()}"
            try:
                data = patched(kept, self._http.call("GET", path) or b"")
                if digest_of(data) == digest:
                    return data
            except Malformed:
                pass  # a server that knows of no differences, or what is kept here is damaged
            except ServerRefused as refused:
                if refused.status != 404:
                    raise
        return self._fetched(digest)

    def _fetched(self, digest: bytes) -> bytes:
        data = self._http.call("GET", f"/models/{digest.hex()}") or b""
        if digest_of(data) != digest:
            raise ModelMismatch(f"what the server sent does not have digest {digest.hex()[:12]}")
        return data
