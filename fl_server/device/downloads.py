"""What a device fetches by digest: model files, which it keeps, and vectors of weights."""

from __future__ import annotations

from pathlib import Path

from fl_server.device.http import Http
from fl_server.errors import ModelMismatch
from fl_server.secagg.encode import Floats
from fl_server.storage.files import write_file
from fl_server.storage.weights import digest_of, weights_vector


class Downloads:
    """folder: where model files are kept"""

    def __init__(self, http: Http, folder: Path) -> None:
        self._http = http
        self._folder = folder

    def model(self, digest: bytes) -> bytes:
        """A model file.     raises ModelMismatch"""
        path = self._folder / digest.hex()
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

    def _fetched(self, digest: bytes) -> bytes:
        data = self._http.call("GET", f"/models/{digest.hex()}") or b""
        if digest_of(data) != digest:
            raise ModelMismatch(f"what the server sent does not have digest {digest.hex()[:12]}")
        return data
