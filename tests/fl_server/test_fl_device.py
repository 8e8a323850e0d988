"""What a device holds to by itself: its limits of an offer, and that its folder is its own."""

from __future__ import annotations

import threading

import pytest
from fl_fleet import FLOOR, MODEL, fleet_of, serving, task_settings
from test_fl_service import START, NeverTrains

from fl_server.device import Device, Policy
from fl_server.errors import SettingsError


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
