"""The hook that decides about devices, at a server and at an authority apart from it."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import numpy as np
import pytest
from fl_fleet import serving
from fl_world import enrolment, identity_of

from fl_server import errors
from fl_server.authority.attestation import Attestor, attest
from fl_server.authority.ca import CertificateAuthority
from fl_server.commands.ca import sign
from fl_server.device import Device, Policy
from fl_server.device.cli import _attestation, client
from fl_server.device.linear import synthetic_device

GENUINE = enrolment(identity_of(b"device"), b"token", attestation=b"genuine").asked
CHECK = "import json,sys; r=json.load(sys.stdin); sys.exit(bytes.fromhex(r['attestation'])!=b'%s')"


def test_a_command_decides_whether_a_device_is_attested(tmp_path):
    yes, no = ([sys.executable, "-c", CHECK % word] for word in ("genuine", "other"))
    attest(yes, GENUINE, "t")
    attest([], GENUINE, "t")
    with pytest.raises(errors.Unauthorised, match="refused: exit code 1"):
        attest(no, GENUINE, "t")
    script = "import sys; sys.exit('not a phone\\nof ours')"
    with pytest.raises(errors.Unauthorised, match="refused: not a phone of ours"):
        attest([sys.executable, "-c", script], GENUINE, "t")
    with pytest.raises(errors.HookFailed, match="attestation: /none: No such file"):
        attest(["/none"], GENUINE, "t")


def test_a_server_asks_its_hook_before_a_device_is_enrolled(tmp_path):
    hook = [sys.executable, "-c", CHECK % "other"]
    with serving(tmp_path, attest=hook) as server:
        arguments = server.url, tmp_path / "d", synthetic_device(0), server.authority
        device = Device(*arguments, server.enrol_token)
        with device, pytest.raises(errors.ServerRefused, match="the attestation is refused"):
            device.enrol()
        assert server.service.clients.count() == 0


def script(folder: Path, name: str, text: str) -> str:
    """A Python program as a command."""
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{text}\n")
    path.chmod(0o700)
    return str(path)


def test_a_device_hands_its_platforms_attestation_of_its_key_to_the_hook(tmp_path):
    """The hook sees what the device's own command wrote of its key, and who has none stays out."""
    check = "r=json.load(sys.stdin); sys.exit(bytes.fromhex(r['attestation']) != "
    hook = script(tmp_path, "hook", f"import json,sys; {check}b'by ' + r['public_key'].encode())")
    with serving(tmp_path, attest=[hook]) as server:
        place = server.url, server.authority, server.enrol_token
        for name, made, message in (
            ("honest", lambda key: b"by " + key.hex().encode(), ""),
            ("borrowed", lambda key: b"by " + bytes(32).hex().encode(), "attestation is refused"),
            ("none", lambda key: b"", "attestation is refused"),
        ):
            url, authority, token = place
            folder = tmp_path / name
            with Device(
                url, folder, synthetic_device(0), authority, token, policy=Policy(2), attest=made
            ) as device:
                if not message:
                    device.enrol()
                    continue
                with pytest.raises(errors.ServerRefused, match=message):
                    device.enrol()
        assert server.service.clients.count() == 1


def test_a_client_gets_its_attestation_from_a_command(tmp_path, capsys):
    np.savez(tmp_path / "d.npz", x=np.zeros((3, 2)))
    check = "r=json.load(sys.stdin); sys.exit(bytes.fromhex(r['attestation']).decode() != "
    hook = script(tmp_path, "hook", f"import json,sys; {check}'by ' + r['public_key'])")
    ours = script(tmp_path, "ours", "import sys; sys.stdout.write('by ' + sys.argv[-1])")
    bad = script(tmp_path, "bad", "import sys; sys.exit(3)")
    with serving(tmp_path, attest=[hook]) as server:
        given = ["--server", server.url, "--authority", server.authority.hex(), "--rounds", "1"]
        given += ["--enrol-token", server.enrol_token, "--data", f"{tmp_path}/d.npz"]
        for command, message in (
            (bad, "exit code 3 and 0 bytes; want 0, and at most 16384"),
            ("/none", "--attest /none: No such file"),
        ):
            assert client([*given, "--folder", f"{tmp_path}/c", "--attest", command]) == 1
            assert message in capsys.readouterr().err
        arguments = server.url, tmp_path / "d", synthetic_device(0), server.authority
        made = partial(_attestation, [ours])
        with Device(*arguments, server.enrol_token, attest=made) as device:
            device.enrol()
        assert server.service.clients.count() == 1


def test_an_attestation_reaches_the_authority_and_the_token_does_not(tmp_path, database):
    """Neither the database, nor a token of scope ca, tells who enrols with what."""
    ca = CertificateAuthority.create(tmp_path / "ca", lambda size: bytes(size))
    settings = {"database_url": database, "authority_public": ca.public}
    with serving(tmp_path, **settings) as server, server.operator() as operator:
        token = operator.create_token("devices", ["enrol"])
        arguments = server.url, tmp_path / "d", synthetic_device(0), ca.public, token
        made = Device(*arguments, attest=lambda key: b"genuine")
        with made as device, ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(device.enrol)
            while not (found := operator.ca_requests()["requests"]):
                assert not waiting.done()
            assert b"genuine".hex() in found[0]["message"]
            assert token.encode().hex() not in found[0]["message"]
            with server.service.store.read() as db:
                for table in ("enrolments", "clients", "tokens", "audit"):
                    rows = db.exec_driver_sql(f"SELECT * FROM {table}").all()
                    assert rows
                    assert token not in str(rows)
            assert sign(ca, operator, 30, [sys.executable, "-c", CHECK % "genuine"]) == (1, 0)
            waiting.result()


def test_a_hook_that_is_slow_holds_up_its_own_devices_alone(tmp_path):
    """With more devices at the hook than the server has threads, other routes answer at once."""
    gate = tmp_path / "gate"
    wait = f"import pathlib,time\nwhile not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.02)"
    hook = script(tmp_path, "hook", wait)
    with serving(tmp_path, attest=[hook]) as server, ThreadPoolExecutor(40) as pool:
        token, url = server.enrol_token.encode(), f"{server.url}/enrol"
        bodies = [enrolment(identity_of(b"%d" % i), token).to_bytes() for i in range(40)]
        waiting = [pool.submit(httpx.post, url, content=body, timeout=60) for body in bodies]
        while server.service.attestor._count < 40:
            assert not any(future.done() for future in waiting)
        with server.operator() as operator:
            for _ in range(5):
                assert operator.tasks() == []
        assert not any(future.done() for future in waiting)
        gate.touch()
        assert [future.result().status_code for future in waiting] == [200] * 40


def test_a_hook_that_does_not_answer_is_ended_and_the_device_told_to_come_again(tmp_path):
    hook = script(tmp_path, "hook", "import os,time; os.fork(); time.sleep(600)")
    with serving(tmp_path, attest=[hook], attest_s=0.3) as server:
        body = enrolment(identity_of(b"d"), server.enrol_token.encode()).to_bytes()
        start = time.monotonic()
        answer = httpx.post(f"{server.url}/enrol", content=body, timeout=60)
        assert time.monotonic() - start < 30
        assert (answer.status_code, server.service.clients.count()) == (503, 0)
        assert answer.text == "HookFailed: the attestation cannot be looked at now; come again\n"


def test_more_devices_than_can_be_looked_at_are_told_when_to_come_again(tmp_path):
    gate = threading.Event()

    async def crowd(attestor: Attestor) -> list[object]:
        attestor._threads.submit(gate.wait)  # nothing moves until all have asked
        for _ in range(7):
            attestor._threads.submit(gate.wait)
        asking = [asyncio.create_task(attestor.check(GENUINE, "t")) for _ in range(73)]
        await asyncio.sleep(0)
        gate.set()
        return await asyncio.gather(*asking, return_exceptions=True)

    attestor = Attestor(["true"], 10.0)
    found = asyncio.run(crowd(attestor))
    attestor.close()
    assert found[:72] == [None] * 72
    assert isinstance(found[72], errors.TooMany)


def test_a_device_that_the_hook_cannot_tell_about_goes_on_waiting(tmp_path, capsys):
    ca = CertificateAuthority.create(tmp_path / "ca", lambda size: bytes(size))
    with serving(tmp_path, authority_public=ca.public) as server, server.operator() as operator:
        server.service.clients.enrol(enrolment(identity_of(b"d"), server.enrol_token.encode()))
        gone = str(tmp_path / "gone")
        assert sign(ca, operator, 30, [gone]) == (0, 0)
        assert "client 1 waits: attestation: " in capsys.readouterr().err
        assert sign(ca, operator, 30, ["true"]) == (1, 0)
