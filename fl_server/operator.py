"""What an operator does with a running server: create tasks, follow them, read results."""

from __future__ import annotations

from collections.abc import Sequence, Set
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from fl_server.address import tls_context, url_of
from fl_server.authority.handover import Handover
from fl_server.errors import Malformed, ServerRefused, ServerUnreachable, SettingsError
from fl_server.messages import AUTHORIZATION
from fl_server.secagg.certificate import Certificate, RevocationList
from fl_server.secagg.encode import Floats
from fl_server.storage.weights import weights_bytes, weights_vector

# Longer than any server holds a request.
_TIMEOUT_S = 120.0
STATUS = {"name", "state", "error", "version", "rounds"}


class Operator:
    """A connection with the admin token. Every method raises ServerRefused or ServerUnreachable."""

    def __init__(
        self, server: str, token: str, tls_ca: str | None = None, tls_cert: Sequence[str] = ()
    ) -> None:
        if not token.isascii() or not token.isprintable():
            raise SettingsError("the admin token is not printable ASCII")
        headers = {AUTHORIZATION: f"Bearer {token}"}
        options: dict[str, Any] = {"headers": headers, "timeout": _TIMEOUT_S}
        options["verify"] = tls_context(tls_ca, tls_cert)
        self._http = httpx.Client(base_url=url_of(server), **options)

    def create_task(
        self, name: str, model: bytes, weights: Floats, **settings: Any
    ) -> dict[str, Any]:
        """Start training a model from a float32 vector of weights; the status comes out.

        settings: fields of TaskSettings, such as rounds, min_cohort, target_cohort, clip_norm
        """
        digests = {
            "model": self._blob(model),
            "weights": self._blob(weights_bytes(weights)),
        }
        body = {"name": name, **settings}
        return self._json(STATUS, "POST", "/admin/tasks", params=digests, json=body)

    def status(self, name: str, after: int = -1) -> dict[str, Any]:
        """State, settings and rounds. With `after`, waits a while for more rounds to be over."""
        path = f"/admin/tasks/{quote(name, safe='')}"
        return self._json(STATUS, "GET", path, params={"after": after})

    def tasks(self) -> list[dict[str, Any]]:
        """The status of every task."""
        return [self._checked(STATUS, task) for task in _list(self._any("GET", "/admin/tasks"))]

    def wait(self, name: str) -> dict[str, Any]:
        """The status of a task once it runs no longer."""
        status = self.status(name)
        while status["state"] == "running":
            status = self.status(name, after=rounds_over(status))
        return status

    def weights(self, name: str, version: int = -1) -> Floats:
        """float32 [d]: the newest global weights, or those of a version."""
        path = f"/admin/tasks/{quote(name, safe='')}/weights"
        return weights_vector(self._call("GET", path, params={"version": version}).content)

    def transcript(self, name: str, number: int) -> list[str]:
        """The public lines of one round; transcript.verify checks their chain."""
        return self._call("GET", f"/tasks/{name}/rounds/{number}/transcript").text.splitlines()

    def versions(self, name: str) -> list[dict[str, Any]]:
        """All weights of a task, oldest first: version, digest, and the round that made them."""
        found = self._any("GET", f"/admin/tasks/{quote(name, safe='')}/versions")
        return [self._checked({"version", "digest", "round"}, entry) for entry in _list(found)]

    def roll_back(self, name: str, version: int) -> dict[str, Any]:
        """Make an older version of the weights the newest."""
        path = f"/admin/tasks/{quote(name, safe='')}/rollback"
        return self._json(STATUS, "POST", path, params={"version": version})

    def evaluate(self, name: str, of: str, version: int = -1, **settings: Any) -> dict[str, Any]:
        """A task `name` that measures weights of the task `of` on devices; the status comes out."""
        versions, task = self.versions(of), self.status(of)
        if not -1 <= version < len(versions):
            raise SettingsError(f"task {of} has weights 0 to {len(versions) - 1}, not {version}")
        local = task.get("settings", {}).get("local")
        settings = ({"local": local} if local else {}) | settings
        digests = {"model": task.get("model"), "weights": versions[version]["digest"]}
        body = {"name": name, "kind": "evaluate", **settings}
        return self._json(STATUS, "POST", "/admin/tasks", params=digests, json=body)

    def stop(self, name: str) -> dict[str, Any]:
        """End a task."""
        return self._json(STATUS, "POST", f"/admin/tasks/{quote(name, safe='')}/stop")

    def revoke(self, client: int) -> None:
        """Let a client in no longer."""
        self._call("POST", f"/admin/clients/{client}/revoke")

    def create_token(
        self, name: str, scopes: list[str], tenant: str = "", days: float | None = None
    ) -> str:
        """A new token, which the server does not tell again."""
        body = {"name": name, "scopes": scopes, "tenant": tenant, "days": days}
        return str(self._json({"token"}, "POST", "/admin/tokens", json=body)["token"])

    def tokens(self) -> list[dict[str, Any]]:
        """All tokens without their secrets."""
        found = self._any("GET", "/admin/tokens")
        return [self._checked({"name", "scopes", "state"}, t) for t in _list(found)]

    def revoke_token(self, name: str) -> None:
        """Take a token back."""
        self._call("POST", f"/admin/tokens/{quote(name, safe='')}/revoke")

    def audit(self) -> list[str]:
        """The lines of the audit log; transcript.verify checks their chain."""
        found: list[str] = []
        while True:
            more = self._call("GET", "/admin/audit", params={"first": len(found)})
            if not more.text:
                return found
            found += more.text.splitlines()

    def ca_requests(self, after: int = -1) -> dict[str, Any]:
        """The first who wait for a certificate of those numbered above `after`, who was revoked on
        the server, and what it knows of the authority."""
        wanted = {"requests", "revoked", "public", "revocation_list"}
        return self._json(wanted, "GET", "/admin/ca/requests", params={"after": after})

    def ca_publish(self, handovers: Sequence[Handover], revocations: RevocationList) -> None:
        """Hand in an authority's chain of keys and its list of who is revoked."""
        chain = b"".join(link.to_bytes() for link in handovers)
        body = {"handovers": chain.hex(), "revocations": revocations.to_bytes().hex()}
        self._call("POST", "/admin/ca/publish", json=body)

    def ca_answer(self, certificates: Sequence[Certificate], refused: Sequence[int]) -> None:
        """Hand in certificates, and who gets none."""
        signed = [certificate.to_bytes().hex() for certificate in certificates]
        body = {"certificates": signed, "refused": list(refused)}
        self._call("POST", "/admin/ca/certificates", json=body)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _blob(self, data: bytes) -> str:
        return str(self._json({"digest"}, "POST", "/admin/blobs", content=data)["digest"])

    def _json(self, wanted: Set[str], method: str, path: str, **arguments: Any) -> dict[str, Any]:
        """An answer that has these fields.     raises Malformed: it is another kind of server"""
        return self._checked(wanted, self._any(method, path, **arguments))

    def _checked(self, wanted: Set[str], found: Any) -> dict[str, Any]:
        if not isinstance(found, dict) or not wanted <= found.keys():
            raise Malformed(f"{self._http.base_url}: not the answer of a federated server")
        return found

    def _any(self, method: str, path: str, **arguments: Any) -> Any:
        response = self._call(method, path, **arguments)
        try:
            return response.json()
        except (ValueError, RecursionError):
            return None

    def _call(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, **arguments)
        except httpx.HTTPError as error:
            raise ServerUnreachable(f"{self._http.base_url}: {error}") from None
        except ValueError as error:  # of what JSON does not hold, such as nan
            raise SettingsError(f"{method} {path}: {error}") from None
        if response.is_error:
            raise ServerRefused(response.status_code, response.text.strip())
        return response


def _list(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [None]


def rounds_over(status: dict[str, Any]) -> int:
    """How many rounds of a status are finished or failed."""
    return sum(entry["stage"] in ("finished", "failed") for entry in status["rounds"])
