"""What a device holds to by itself: its limits of an offer, and that its folder is its own."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

import pytest
from fl_fleet import FLOOR, MODEL, fleet_of, serving, task_settings
from test_fl_service import START, NeverTrains

from fl_server.device import Device, Policy
from fl_server.device.http import Http
from fl_server.errors import Malformed, SettingsError
from fl_server.secagg.keys import Identity


@pytest.mark.parametrize("name", ["clip_norm", "clip_value", "max_weight"])
def test_a_looser_encoding_than_the_device_allows_is_declined_before_it_trains(tmp_path, name):
    said = []
    stop = threading.Event()

    def tell(text):
        said.append(text)
        if "declined" in text:
            stop.set()

    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("loose", MODEL, START, **task_settings(3, **{name: 50}))
        arguments = server.url, tmp_path / "careful", NeverTrains(), server.authority
        limits = Policy(FLOOR, **{name: 49})
        options = {"policy": limits, "stop": stop, "tell": tell}
        with Device(*arguments, server.enrol_token, **options) as device:
            assert list(device.run()) == []
        assert fleet_of(server, tmp_path, 3).run()
        assert operator.status("loose")["rounds"][0]["stage"] == "finished"
    assert said[-1] == (
        f"round 1 of loose declined: {name} 50 is offered, this device's limit is 49"
    )


def test_two_devices_never_share_a_folder(tmp_path):
    arguments = "http://127.0.0.1:9", tmp_path / "device", NeverTrains(), bytes(32)
    with (
        Device(*arguments),
        pytest.raises(SettingsError, match="device is in use by another device"),
    ):
        Device(*arguments)
    with Device(*arguments):
        pass


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nab", "compressed"),
        (b"Content-Length: %d\r\n\r\n%s" % (1 << 29, bytes(1 << 29)), "more than"),
    ],
)
def test_an_answer_that_would_fill_the_memory_is_refused(answer, wrong):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_once():
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\n" + answer)

        threading.Thread(target=answer_once, daemon=True).start()
        http = Http(f"http://127.0.0.1:{listener.getsockname()[1]}", Identity(bytes(32)), 1.0)
        with pytest.raises(Malformed, match=wrong):
            http.call("GET", "/models/x", signed=False)
        http.close()
