"""`ms-serve ca sign`: many devices, what others change meanwhile, networks that fail."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from fl_fleet import serving
from fl_world import enrolment, identity_of

from fl_server import errors
from fl_server.authority.ca import CertificateAuthority, Request
from fl_server.authority.issued import Issued
from fl_server.authority.registry import BATCH
from fl_server.cli import serve
from fl_server.commands.ca import keep_on, sign
from fl_server.operator import Operator


@pytest.fixture
def ca(tmp_path):
    return CertificateAuthority.create(tmp_path / "ca", lambda size: bytes(size))


def asked(client: int, name: bytes = b"device") -> Request:
    return Request(client, "default", enrolment(identity_of(name), b"token").asked)


def enrol(server, count: int, attestation: bytes = b"") -> list[int]:
    """Have devices wait for the authority; their numbers come out."""
    token, clients = server.enrol_token.encode(), server.service.clients
    for i in range(count):
        clients.enrol(enrolment(identity_of(b"%d" % i), token, attestation=attestation))
    return list(range(1, count + 1))


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end


def test_any_number_of_devices_gets_its_certificates(tmp_path, ca):
    """What is handed in is never larger than a body may be, however many wait and are revoked."""
    with serving(tmp_path, authority_public=ca.public) as server, server.operator() as operator:
        waiting = enrol(server, 3 * BATCH + 7, attestation=bytes(500))
        ca.revoke({2, *range(1000, 20_000)})
        assert sign(ca, operator, 30, []) == (len(waiting) - 1, 1)
        assert operator.ca_requests()["requests"] == []
        clients = server.service.clients
        assert [clients.certificate(n).subject.client for n in waiting if n != 2]
        with pytest.raises(errors.NotFound, match="no client 2 with a certificate"):
            clients.certificate(2)
        # Nothing is left to be done, and so nothing is handed in that the log would tell of.
        before = len(operator.audit())
        assert sign(ca, operator, 30, []) == (0, 0)
        assert len(operator.audit()) == before


def test_requests_that_come_in_no_order_are_not_answered_for_ever(tmp_path, ca, monkeypatch):
    with serving(tmp_path, authority_public=ca.public) as server, server.operator() as operator:
        enrol(server, 2)
        same = operator.ca_requests()
        monkeypatch.setattr(operator, "ca_requests", lambda after=-1: same)
        with pytest.raises(errors.Malformed, match="in no order"):
            sign(ca, operator, 30, [])
        for name, value, message in (
            ("requests", None, "no list of who waits"),
            ("requests", [{"client": 3}], "no request for a certificate"),
            ("revoked", "none", "no list"),
            ("revoked", [-1], "says that -1 is revoked; want the number of a client"),
        ):
            same[name] = value
            with pytest.raises(errors.Malformed, match=message):
                sign(ca, operator, 30, [])


def test_numbers_that_no_client_has_are_refused(tmp_path, ca):
    with serving(tmp_path, authority_public=ca.public) as server, server.operator() as operator:
        for refused in ([2**70], [-1], list(range(BATCH + 1))):
            with pytest.raises(errors.ServerRefused) as caught:
                operator.ca_answer([], refused)
            assert caught.value.status == 422
        operator.ca_answer([], [2**31 - 1])


def test_a_line_of_what_was_issued_that_was_cut_off_is_dropped(tmp_path, ca):
    """The power went while a line was written: the certificate had been handed to nobody."""
    ca.certify(asked(3), 1000.0, 10)
    path = tmp_path / "ca/issued.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    again = CertificateAuthority(tmp_path / "ca")
    assert again.describe()["issued"] == 1
    again.certify(asked(4, b"other"), 1000.0, 10)
    assert [json.loads(line)["client"] for line in path.read_text().splitlines()] == [3, 4]
    path.write_bytes(b"{}\n" + whole)
    with pytest.raises(errors.SettingsError, match=r"issued.jsonl, line 1: not a certificate"):
        CertificateAuthority(tmp_path / "ca").describe()


def test_what_was_issued_is_kept_by_client_and_does_not_grow_with_renewals(tmp_path, monkeypatch):
    monkeypatch.setattr("fl_server.authority.issued._MOST_STALE", 10)
    path = tmp_path / "issued.jsonl"
    issued = Issued(path)
    for day in range(200):
        for client in (1, 2):
            issued.add({"client": client, "public_key": f"key {client}", "at": day})
    lines = path.read_text().splitlines()
    assert len(lines) <= 2 + 11
    again = Issued(path)
    assert (len(again), again.owner(1), again.owner(3)) == (2, "key 1", None)
    assert json.loads(lines[-1])["at"] == 199


def test_signing_goes_on_when_the_server_is_away_and_ends_where_it_refuses(capsys):
    stop, calls = threading.Event(), []
    answers = [
        errors.ServerUnreachable("no route"),
        errors.ServerRefused(503, "the store is away"),
        errors.ServerRefused(429, "TooMany: above 2 requests a second"),
        errors.Malformed("a page of a proxy's"),
        None,
        errors.ServerRefused(401, "Unauthorised: token ca is revoked"),
    ]

    def work() -> None:
        calls.append(len(calls))
        error = answers[calls[-1]]
        if error is not None:
            raise error

    with pytest.raises(errors.ServerRefused, match="is revoked"):
        keep_on(work, 0.001, stop)
    assert len(calls) == len(answers)
    assert capsys.readouterr().err.count("ms-serve ca: ") == 4


def test_pauses_grow_while_the_server_is_away():
    pauses: list[float] = []

    class Clock(threading.Event):
        def wait(self, seconds=None):
            pauses.append(seconds)
            if len(pauses) == 20:
                self.set()
            return self.is_set()

    def away() -> None:
        raise errors.ServerUnreachable("no route")

    keep_on(away, 5.0, Clock())
    assert pauses[0] <= 10 < pauses[3]
    assert 200 < pauses[-1] <= 300


def test_a_watch_that_runs_takes_over_what_is_revoked_meanwhile(tmp_path, ca, capsys):
    """Each pass reads the folder anew: `ca revoke` beside it is not undone."""
    place = ["--ca", str(tmp_path / "ca")]
    with serving(tmp_path, authority_public=ca.public) as server, server.operator() as operator:
        enrol(server, 2)
        given = ["--server", server.url, "--token", operator.create_token("ca", ["ca"]), *place]
        codes: list[int] = []
        watch = threading.Thread(
            target=lambda: codes.append(serve(["ca", "sign", *given, "--watch", "0.02"]))
        )
        watch.start()
        try:
            until(lambda: operator.ca_requests()["requests"] == [])
            assert serve(["ca", "revoke", "1", *place]) == 0
            until(lambda: server.service.clients.count() == 1)
        finally:
            operator.revoke_token("ca")
            watch.join()
        assert codes == [1]
        assert server.service.clients.fleet()["revoked"] == 1
    assert serve(["ca", "revoke", str(2**40), *place]) == 1
    assert f"ca revoke: {2**40}, want the number of a client" in capsys.readouterr().err


def test_a_device_that_waits_for_its_certificate_can_be_revoked(tmp_path, ca, database):
    settings = {"database_url": database, "authority_public": ca.public}
    with serving(tmp_path, **settings) as server, server.operator() as operator:
        token = operator.create_token("b", ["enrol"], "b")
        message = enrolment(identity_of(b"waits"), token.encode())
        assert server.service.clients.enrol(message) is None
        scopes = ["clients:write"]
        other = Operator(server.url, operator.create_token("a", scopes, "a"))
        with other, pytest.raises(errors.ServerRefused, match="there is no client 1"):
            other.revoke(1)
        with Operator(server.url, operator.create_token("of b", scopes, "b")) as theirs:
            theirs.revoke(1)
        assert operator.ca_requests()["requests"] == []
        assert sign(ca, operator, 30, []) == (0, 0)
        assert ca.revoked == {1}
        with pytest.raises(errors.Unauthorised, match="is revoked"):
            server.service.clients.enrol(message)


def test_an_enrolment_is_signed_over_its_token_and_its_attestation():
    made = enrolment(identity_of(b"d"), b"token", attestation=b"genuine")
    made.asked.verify()
    for changed in ({"token": b"other"}, {"attestation": b"other"}, {"population": "other"}):
        with pytest.raises(errors.BadSignature):
            replace(made, **changed).asked.verify()
