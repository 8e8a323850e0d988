"""The authority apart from the server: signing, revoking, new keys; and TLS."""

from __future__ import annotations

import json
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import trustme
from fl_fleet import MODEL, Killable, fleet_of, serving, task_settings
from fl_world import START, World, enrolment, identity_of

from fl_server import errors
from fl_server.address import tls_context
from fl_server.authority import handover
from fl_server.authority.ca import CertificateAuthority, Request
from fl_server.cli import serve
from fl_server.commands.ca import sign
from fl_server.device import Device, Policy
from fl_server.device.linear import synthetic_device
from fl_server.http.app import create_app
from fl_server.http.serving import listen, server_of
from fl_server.operator import Operator
from fl_server.rounds import record
from fl_server.secagg.certificate import MOST_REVOKED, check_certificate
from fl_server.settings import Settings
from fl_server.storage.tables import clients


def drawn(start: int = 0):
    """Random bytes that are other ones each time."""
    count = iter(range(start, 250))
    return lambda size: bytes([next(count)]) * size


def asked(client: int, name: bytes = b"device") -> Request:
    return Request(
        client, "default", enrolment(identity_of(name), b"token", None, b"genuine").asked
    )


@pytest.fixture
def ca(tmp_path):
    return CertificateAuthority.create(tmp_path / "ca", drawn())


def test_an_authority_is_the_same_when_it_is_opened_again(tmp_path, ca):
    ca.certify(asked(3), 1000.0, 10)
    ca.revoke({3, 5})
    again = CertificateAuthority(tmp_path / "ca")
    assert again.describe() == ca.describe()
    assert again.describe() | {"public": ""} == {
        "public": "", "key": 1, "issued": 1, "revocation_list": 2, "revoked": [3, 5],
    }  # fmt: skip
    assert stat.S_IMODE((tmp_path / "ca/ca.key").stat().st_mode) == 0o600
    with pytest.raises(errors.SettingsError, match="there is an authority already"):
        CertificateAuthority.create(tmp_path / "ca", drawn())


def test_a_key_with_a_passphrase_opens_with_it_alone(tmp_path):
    made = CertificateAuthority.create(tmp_path, drawn(7), "open sesame")
    assert bytes([7]) * 32 not in (tmp_path / "ca.key").read_bytes()
    assert CertificateAuthority(tmp_path, "open sesame").public == made.public
    for wrong in ("", "guess"):
        with pytest.raises(errors.SettingsError, match="or another passphrase's"):
            CertificateAuthority(tmp_path, wrong)


def test_a_number_is_one_devices_and_a_revoked_one_nobodys(ca):
    ca.certify(asked(3), 1000.0, 10)
    ca.certify(asked(3), 2000.0, 10)  # a renewal
    with pytest.raises(errors.Unauthorised, match="client 3 is another device"):
        ca.certify(asked(3, b"other"), 1000.0, 10)
    forged = enrolment(identity_of(b"device"), b"token", signer=identity_of(b"other"))
    with pytest.raises(errors.BadSignature):
        ca.certify(Request(4, "default", forged.asked), 1000.0, 10)
    ca.revoke({3})
    with pytest.raises(errors.Unauthorised, match="client 3 is revoked"):
        ca.certify(asked(3), 1000.0, 10)


def test_a_new_key_is_followed_from_any_key_before_it_and_forged_ones_are_not(tmp_path, ca):
    keys = [ca.public]
    for step in range(3):
        ca.rotate(drawn(20 + step))
        keys.append(ca.public)
    chain = CertificateAuthority(tmp_path / "ca").handovers
    assert len(set(keys)) == 4
    assert [handover.follow(key, chain) for key in keys] == [keys[3]] * 4
    stranger = identity_of(b"stranger")
    assert handover.follow(stranger.public, chain) == stranger.public
    forged = handover.Handover(2, keys[0], stranger.public, chain[0].signature)
    with pytest.raises(errors.BadCertificate):
        handover.follow(keys[0], [forged])


def test_a_rotation_that_was_cut_off_is_whole_or_never_was(tmp_path, ca, monkeypatch):
    folder, before = tmp_path / "ca", ca.public
    ca.revoke({9})

    def cut(*_: object) -> None:
        raise OSError("power cut")

    monkeypatch.setattr("fl_server.authority.ca._write_key", cut)
    with pytest.raises(OSError, match="power cut"):
        ca.rotate(drawn(30))
    monkeypatch.undo()
    assert CertificateAuthority(folder).public == before
    replace = os.replace
    monkeypatch.setattr(
        "os.replace", lambda a, b: cut() if Path(b).name == "handovers" else replace(a, b)
    )
    with pytest.raises(OSError, match="power cut"):
        CertificateAuthority(folder).rotate(drawn(40))
    monkeypatch.undo()
    after = CertificateAuthority(folder)
    assert handover.follow(before, after.handovers) == after.public != before
    assert after.describe()["revoked"] == [9]
    assert after.describe()["revocation_list"] == 3


def test_devices_wait_until_an_authority_apart_has_signed_and_follow_its_new_key(
    tmp_path, ca, database
):
    """A round under the first key, a new key, a round under that one; the server has neither."""
    settings = {"database_url": database, "authority_public": ca.public}
    with serving(tmp_path, **settings) as server, server.operator() as operator:
        assert not (tmp_path / "server/ca.key").exists()
        token = operator.create_token("ca", ["ca"])
        operator.create_task("one", MODEL, START, **task_settings(3))
        done = threading.Event()

        def keep_signing() -> int:
            with Operator(server.url, token) as theirs:
                count = 0
                while not done.wait(0.05):
                    count += sign(ca, theirs, 30, [])[0]
                return count

        with ThreadPoolExecutor(1) as pool:
            signing = pool.submit(keep_signing)
            reports = fleet_of(server, tmp_path, 3).run()
            done.set()
            assert signing.result() >= 3
            assert [[r.error for r in device] for device in reports] == [[""]] * 3
            first = ca.public
            ca.rotate(drawn(50))
            sign(ca, operator, 30, [])
            operator.create_task("two", MODEL, START, **task_settings(3))
            done.clear()
            signing = pool.submit(keep_signing)
            fleet = fleet_of(server, tmp_path, 3)
            for device in fleet.devices:
                device._authority = first
            reports = fleet.run()
            done.set()
            assert signing.result() >= 3
        assert [r.error for device in reports for r in device] == [""] * 3
        assert operator.status("two")["state"] == "finished"
        assert server.authority == ca.public != first
        for i in range(3):
            kept = (tmp_path / f"device-{i}/handovers").read_bytes()
            assert handover.follow(first, handover.parse_chain(kept)) == ca.public


def test_who_is_revoked_at_the_authority_is_shut_out_of_the_server(tmp_path, ca):
    with (
        serving(tmp_path, authority_public=ca.public) as server,
        server.operator() as operator,
    ):
        sign(ca, operator, 30, [])
        arguments = server.url, tmp_path / "d", synthetic_device(0), ca.public
        with Device(*arguments, server.enrol_token, policy=Policy(2)) as device:
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(device.enrol)
                while not operator.ca_requests()["requests"]:
                    assert not waiting.done()
                sign(ca, operator, 30, [])
                waiting.result()
            ca.revoke({device.id})
            sign(ca, operator, 30, [])
            with pytest.raises(errors.ServerRefused, match="not of an enrolled client"):
                next(device.run())
        # A list that is older than the newest is not taken again.
        old = ca.authority.revoke(1, set())
        with pytest.raises(errors.ServerRefused, match="older than list 2"):
            operator.ca_publish(ca.handovers, old)
        stranger = CertificateAuthority.create(tmp_path / "other", drawn(90))
        with pytest.raises(errors.ServerRefused, match="does not verify"):
            operator.ca_publish([], stranger.revocations)


def test_a_round_without_a_list_of_the_authority_fails_and_says_why(tmp_path, ca):
    from fl_server.authority.registry import Registry

    world = World(tmp_path)
    with pytest.raises(errors.RoundFailed, match="no list of who is revoked"):
        Registry(world.store, ca.public).revocations()


def test_the_commands_of_an_authority(tmp_path, capsys):
    place = ["--ca", str(tmp_path / "ca")]
    assert serve(["ca", "show", *place]) == 1
    assert "ms-serve ca init makes an authority" in capsys.readouterr().err
    assert serve(["ca", "init", *place]) == 0
    public = capsys.readouterr().out.strip()
    assert (tmp_path / "ca/ca.pub").read_text().strip() == public
    assert serve(["ca", "revoke", "4", "5", *place]) == 0
    assert capsys.readouterr().out == "list 2: 2 revoked\n"
    assert serve(["ca", "revoke", *place]) == 1
    assert "want the numbers of clients" in capsys.readouterr().err
    assert serve(["ca", "sign", *place]) == 1
    assert "ca sign: want --server and --token" in capsys.readouterr().err
    assert serve(["ca", "rotate", *place]) == 0
    assert capsys.readouterr().out.startswith("key 2: ")
    assert serve(["ca", "show", *place]) == 0
    assert json.loads(capsys.readouterr().out)["key"] == 2
    pinned = bytes.fromhex(public)
    with serving(tmp_path, authority_public=pinned) as server, server.operator() as operator:
        token = operator.create_token("ca", ["ca"])
        assert serve(["ca", "sign", *place, "--server", server.url, "--token", token]) == 0
        newest = CertificateAuthority(tmp_path / "ca").public
        assert server.authority == newest != pinned


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """Files of an X.509 authority, a certificate for this machine and one for a caller."""
    folder, authority = tmp_path_factory.mktemp("tls"), trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    for name, host in (("server", "127.0.0.1"), ("caller", "caller.example")):
        made = authority.issue_cert(host)
        made.private_key_pem.write_to_path(folder / f"{name}.key")
        made.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
    return folder


def test_a_round_over_tls_with_certificates_on_both_sides(tmp_path, tls, capsys):
    options = ["--tls-cert", f"{tls}/server.pem", "--tls-key", f"{tls}/server.key"]
    options += ["--tls-client-ca", f"{tls}/ca.pem"]
    server = Killable(tmp_path / "server", *options)
    url, token = f"https://127.0.0.1:{server.port}", server.read("enrol.token")
    files = f"{tls}/caller.pem", f"{tls}/caller.key"
    good = tls_context(f"{tls}/ca.pem", files)
    try:
        admin = server.read("admin.token")
        with Operator(url, admin, f"{tls}/ca.pem", files) as operator:
            operator.create_task("t", MODEL, START, **task_settings(3))
            devices = [
                Device(
                    url, tmp_path / f"d{i}", synthetic_device(i), server.authority, token,
                    policy=Policy(2), tls=good,
                )
                for i in range(3)
            ]  # fmt: skip
            with ThreadPoolExecutor(3) as pool:
                reports = list(pool.map(lambda d: list(d.run(until_idle=True)), devices))
            for device in devices:
                device.close()
            assert operator.wait("t")["state"] == "finished"
        known = ["--tls-ca", f"{tls}/ca.pem", "--server", url, "--token", admin]
        assert serve(["status", "t", *known, "--tls-cert", *files]) == 0
        assert capsys.readouterr().out.startswith("t: finished")
        assert serve(["status", "t", *known]) == 1
        flags = {"HttpOnly", "Path=/dashboard", "SameSite=strict", "Secure"}
        for path, data in (("login", {"token": admin}), ("logout", {})):
            answer = httpx.post(f"{url}/dashboard/{path}", data=data, verify=good)
            assert flags <= set(answer.headers["set-cookie"].split("; "))
        assert [[r.outcome for r in device] for device in reports] == [["done"]] * 3
        for context in (tls_context(f"{tls}/ca.pem"), tls_context(None)):
            arguments = url, tmp_path / "stranger", synthetic_device(9), server.authority, token
            device = Device(*arguments, tls=context, patience_s=0.5)
            with device, pytest.raises(errors.ServerUnreachable):
                device.enrol()
    finally:
        server.kill()


def test_a_request_that_is_held_over_tls_is_answered(tmp_path, tls):
    """Held for longer than a caller may leave unread what it was sent: nothing was sent."""
    files = {"ssl_certfile": f"{tls}/server.pem", "ssl_keyfile": f"{tls}/server.key"}
    settings = Settings(tmp_path / "server", poll_s=0.8, read_s=0.2)
    app, listener = create_app(settings), listen("127.0.0.1", 0)
    server = server_of(app, settings, **files)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    url = f"https://127.0.0.1:{listener.getsockname()[1]}"
    with Operator(url, app.state.service.admin_token, f"{tls}/ca.pem") as operator:
        operator.create_task("t", MODEL, START, **task_settings(3))
        assert operator.status("t", after=0)["state"] == "running"
    server.should_exit = True
    thread.join()
    listener.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tls-client-ca", "x.pem"], "--tls-client-ca x.pem needs --tls-cert"),
        (["--ca-pub", "none.pub"], "a public key is 64 hexadecimal digits, or a file"),
    ],
)
def test_files_of_keys_that_are_none_are_named(options, message, tmp_path, capsys):
    assert serve(["--folder", str(tmp_path), *options]) == 1
    assert message in capsys.readouterr().err


def test_a_certificate_of_the_authority_is_one_for_devices(ca):
    certificate = ca.certify(asked(3), 1000.0, 10)
    arguments = certificate, "default", "default", 2000.0, set()
    assert check_certificate(ca.public, *arguments).client == 3


def test_a_list_leaves_off_whose_certificate_has_run_out_and_lets_them_in_no_more(tmp_path, ca):
    day = 86400.0
    for client, name, days in ((1, b"one", 1), (2, b"two", 30)):
        ca.certify(asked(client, name), 0.0, days)
    first = ca.revoke({1, 2, 7}, day)  # devices whose clock is an hour behind know 1 yet
    assert [serial.number for serial in first.revoked.serials] == [1, 2, 7]
    later = ca.revoke({8}, 2 * day)
    assert [serial.number for serial in later.revoked.serials] == [2, 7, 8]
    again = CertificateAuthority(tmp_path / "ca")
    assert again.describe() == ca.describe()
    assert again.revoked == {1, 2, 7, 8}
    with pytest.raises(errors.Unauthorised, match="client 1 is revoked"):
        again.certify(asked(1, b"one"), 2 * day, 10)
    (tmp_path / "ca/revoked").write_text("1\ntwo\n")
    with pytest.raises(errors.SettingsError, match="ca/revoked: want a number in each line"):
        CertificateAuthority(tmp_path / "ca").describe()


def test_more_revoked_than_a_list_holds_is_said_and_changes_nothing(ca):
    before = ca.describe()
    with pytest.raises(errors.RoundFailed, match=r"65537 certificates .* a list holds 65535"):
        ca.revoke(set(range(1, 65_538)))
    assert ca.describe() == before
    assert len(ca.revoke(set(range(1, 65_536))).revoked.serials) == 65_535


def test_a_server_with_too_many_revoked_fails_the_round_and_says_why_until_they_run_out(tmp_path):
    world = World(tmp_path, min_cohort=3, target_cohort=3, join_s=60, rounds=9)
    for i in range(2):
        world.join(i)
    _, gone = world.enrol(20)
    subject = gone.certificate.subject
    rows = [
        {"id": n, "public_key": n.to_bytes(32, "big"), "population": "default", "revoked": True}
        | {"certificate": replace(gone.certificate, subject=replace(subject, serial=n)).to_bytes()}
        for n in range(1000, 1000 + MOST_REVOKED + 1)
    ]
    with world.store.begin() as db:
        db.execute(clients.insert(), rows)
    world.join(2)
    (failed, _) = record.of_task(world.store, "t")
    assert failed["kind"] == "RoundFailed"
    assert failed["error"].startswith("65536 certificates are revoked and have not run out")
    world.now = subject.not_after + 3601
    assert world.clients.revocations().revoked.serials == ()
    world.close()
