"""Several tasks, who is asked for which, when one comes again; roll-back and evaluation."""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fl_fleet import LENGTH, MODEL, fleet_of, serving, task_settings
from fl_people import seeded
from fl_world import START, World, enrolment, identity_of

from fl_server import errors, task_checks
from fl_server import messages as wire
from fl_server.cli import serve
from fl_server.conditions import Conditions
from fl_server.device import Device, Policy
from fl_server.device.linear import synthetic_device
from fl_server.rounds.pace import Pace
from fl_server.secagg.run import Stage
from fl_server.settings import Settings
from fl_server.task_settings import TaskSettings

ASK = wire.CheckIn("", 0, b"")
WANTS = {
    "needs_charging": (True, {"charging": True}, {"charging": False}),
    "needs_unmetered": (True, {"unmetered": True}, {"unmetered": False}),
    "needs_idle": (True, {"idle": True}, {"idle": False}),
    "min_battery": (60, {"battery": 60}, {"battery": 59}),
    "min_app_version": (3, {"app_version": 4}, {"app_version": 2}),
}


@pytest.mark.parametrize("setting", WANTS)
def test_a_task_is_offered_to_devices_that_suit_it(tmp_path, setting):
    value, good, bad = WANTS[setting]
    world = World(tmp_path, **{setting: value})
    _, caller = world.enrol(0)
    for said, offered in ((good, True), (bad, False), ({}, False)):
        reply = world.rounds.check_in(caller, ASK, Conditions(**said))
        assert (reply is not None) == offered
        assert not offered or reply.kind == wire.OFFER


def test_what_a_device_says_of_itself_comes_over_as_it_is():
    said = Conditions(charging=True, idle=False, battery=7)
    query = dict(pair.split("=") for pair in said.to_query().split("&"))
    assert query == {"charging": "1", "idle": "0", "battery": "7"}
    assert Conditions.from_query(query) == said
    assert Conditions().to_query() == ""
    for bad in ({"charging": "2"}, {"battery": "101"}, {"battery": "x"}, {"mood": "1"}):
        with pytest.raises(errors.Malformed):
            Conditions.from_query(bad)


def test_devices_tell_their_conditions_with_each_request_for_work(tmp_path):
    now = {"charging": False}
    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("t", MODEL, START, **task_settings(3, needs_charging=True))
        fleet = fleet_of(server, tmp_path, 3)
        for device in fleet.devices:
            device._conditions = lambda: Conditions(**now)
        threading.Timer(0.3, now.update, [{"charging": True}]).start()
        reports = fleet.run()
        assert operator.status("t")["state"] == "finished"
    assert [[r.outcome for r in device] for device in reports] == [["done"]] * 3


def test_of_two_tasks_the_one_that_waits_for_longest_is_offered(tmp_path, database, opened):
    world = opened(World(tmp_path, database, min_cohort=2, target_cohort=2))
    world.now += 1
    settings = TaskSettings(name="a", min_cohort=2, target_cohort=2)
    world.rounds.create_task(settings, world.digest, START)
    _, caller = world.enrol(0)
    offers = []
    for _ in range(3):
        reply = world.rounds.check_in(caller, ASK)
        offers.append(wire.Offer.from_bytes(reply.body).context.task)
        world.now += 1
        if len(offers) == 2:
            world.join(1)
            world.join(2)  # the round of t is full
    assert offers == ["t", "t", "a"]


def test_devices_of_two_tasks_take_part_in_both(tmp_path):
    with serving(tmp_path) as server, server.operator() as operator:
        for name in ("one", "two"):
            operator.create_task(name, MODEL, START, **task_settings(3, rounds=2))
        reports = fleet_of(server, tmp_path, 3).run()
        assert {operator.wait(name)["state"] for name in ("one", "two")} == {"finished"}
    for device in reports:
        assert sorted(r.task for r in device if r.outcome == "done") == ["one"] * 2 + ["two"] * 2


def test_those_who_are_slow_are_selected_and_not_waited_for(tmp_path):
    """Of six selected for a target of five one never sends its vector; nobody waits vector_s."""
    settings = task_settings(5, min_cohort=5, over_selection=0.2, vector_s=600)
    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("t", MODEL, START, **settings)
        reports = fleet_of(server, tmp_path, 6, stop_after={0: Stage.SHARE}).run()
        (entry,) = operator.wait("t")["rounds"]
    assert (entry["clients"], entry["survivors"]) == (6, 5)
    assert [[r.outcome for r in device] for device in reports] == [["stopped"]] + [["done"]] * 5


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"over_selection": 0.9}, "26 of 38 devices must stay, target_cohort is 20"),
        ({"over_selection": 0.5, "target_cohort": 8000}, "12000 devices would be selected"),
        ({"kind": "evaluate", "noise_multiplier": 1.0}, "an evaluation shows its metrics"),
    ],
)
def test_a_selection_that_cannot_work_is_refused(changed, message):
    with pytest.raises(errors.SettingsError, match=message):
        task_checks.check(TaskSettings(name="t", **changed), 10)


def test_devices_come_again_at_the_pace_that_is_set(tmp_path):
    now, counts = [0.0], []
    settings = Settings(
        tmp_path, checkins_per_s=10, retry_s=2, clock=lambda: now[0], random=seeded("pace")
    )
    pace = Pace(settings)

    def count() -> int:
        counts.append(6000)
        return 6000

    drawn = [pace.retry_ms(count) / 1000 for _ in range(400)]
    assert len(counts) == 1
    assert min(drawn) >= 450
    assert max(drawn) <= 750
    assert abs(np.mean(drawn) - 600) < 15  # 6000 devices in 600 s are ten a second
    now[0] += 60
    assert 1.5 <= pace.retry_ms(lambda: 3) / 1000 <= 2.5  # and never sooner than retry_s
    assert Pace(Settings(tmp_path, retry_s=2)).retry_ms(count) == 2000


def test_a_task_goes_on_from_older_weights(tmp_path, database):
    settings = task_settings(3, rounds=3, strategy="fedavgm", learning_rate=0.5, momentum=0.9)
    with serving(tmp_path, database_url=database) as server, server.operator() as operator:
        operator.create_task("t", MODEL, START, **settings)
        fleet = fleet_of(server, tmp_path, 3)
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda device: list(device.run(rounds=2)), fleet.devices))
        operator.roll_back("t", 1)
        versions = operator.versions("t")
        weights = [operator.weights("t", version) for version in range(4)]
        assert [v["version"] for v in versions] == [0, 1, 2, 3]
        assert versions[3]["digest"] == versions[1]["digest"] != versions[2]["digest"]
        np.testing.assert_array_equal(weights[3], weights[1])
        with pytest.raises(errors.ServerRefused, match="has weights 0 to 3, not 9"):
            operator.roll_back("t", 9)
        operator.stop("t")
        with pytest.raises(errors.ServerRefused, match="task t is stopped, want one that is run"):
            operator.roll_back("t", 1)
    for device in fleet.devices:
        device.close()


def test_rolling_back_ends_the_open_round_and_keeps_what_the_strategy_kept(
    tmp_path, database, opened
):
    world = opened(World(tmp_path, database, min_cohort=2, target_cohort=2, rounds=9,
                         strategy="fedavgm"))  # fmt: skip
    for i in range(2):
        world.join(i)
    world.play()
    weights = world.rounds.weights
    assert world.stages() == ["finished", "advertise"]
    world.rounds.roll_back("t", 0)
    assert weights.latest("t").digest == weights.versions("t")[0].digest
    world.rounds.roll_back("t", 1)
    assert world.stages() == ["finished", "failed", "failed", "advertise"]
    assert weights.latest("t").moments == weights.versions("t")[1].moments != b""
    assert world.rounds.live("t").weights == weights.versions("t")[1].digest
    assert world.rounds.tasks.get("t").state == "running"


def test_an_evaluation_sums_what_devices_measure_and_changes_nothing(tmp_path, database):
    with serving(tmp_path, database_url=database) as server, server.operator() as operator:
        operator.create_task("t", MODEL, START, **task_settings(3, rounds=2))
        fleet_of(server, tmp_path, 3).run()
        losses = []
        for version in range(3):
            name = f"measure-{version}"
            operator.evaluate(name, "t", version, **task_settings(3, loss_cap=100))
            fleet = fleet_of(server, tmp_path, 3)
            reports = fleet.run()
            (entry,) = operator.wait(name)["rounds"]
            assert [[r.outcome for r in device] for device in reports] == [["done"]] * 3
            assert operator.status(name)["version"] == 0
            weights = operator.weights("t", version)
            true = np.mean([synthetic_device(i, LENGTH).loss(weights) for i in range(3)])
            assert abs(entry["loss"] - true) < 100 / 2**16
            assert entry["examples"] == 3 * 64
            losses.append(entry["loss"])
    assert losses[0] > 3 * losses[1] > 3 * losses[2]


def test_a_trainer_that_cannot_measure_takes_no_part_in_an_evaluation(tmp_path):
    class Trains:
        def train(self, weights, model):
            raise AssertionError("an evaluation was trained")

    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("t", MODEL, START, kind="evaluate", **task_settings(3))
        arguments = server.url, tmp_path / "d", Trains(), server.authority, server.enrol_token
        with Device(*arguments, policy=Policy(2)) as device:
            report = next(device.run())
    assert report.error == "EncodingMismatch: 0 coordinates offered, the weights make 16"


def test_the_commands_that_roll_back_and_evaluate(tmp_path, capsys):
    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("t", MODEL, START, **task_settings(3))
        place = ["--server", server.url, "--folder", str(server.service.settings.folder)]
        assert serve(["rollback", "t", "0", *place]) == 0
        assert "round 1: failed the weights were rolled back to 0" in capsys.readouterr().out
        assert serve(["evaluate", "t", "m", "--set", "min_cohort=3", *place]) == 0
        assert operator.status("m")["settings"]["kind"] == "evaluate"
        assert serve(["evaluate", "t", "n", "--weights", "7", *place]) == 1
        assert "task t has weights 0 to 1, not 7" in capsys.readouterr().err
        assert serve(["stop", "m", *place]) == 0
        assert capsys.readouterr().out.startswith("m: stopped")
        assert serve(["stop", "t", *place]) == 0
        assert serve(["rollback", "t", "0", *place]) == 1
        assert "task t is stopped, want one that is running" in capsys.readouterr().err
        assert operator.status("t")["version"] == 1


def test_the_command_that_revokes_shuts_devices_out(tmp_path, capsys):
    with serving(tmp_path) as server:
        place = ["--server", server.url, "--folder", str(server.service.settings.folder)]
        for name in (b"one", b"two", b"three"):
            message = enrolment(identity_of(name), server.enrol_token.encode())
            server.service.clients.enrol(message)
        assert serve(["revoke", "1", "3", *place]) == 0
        assert capsys.readouterr().out == "2 revoked\n"
        assert server.service.clients.count() == 1
        assert serve(["revoke", "9", *place]) == 1
        assert "there is no client 9" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (
            {"control_scale": 1e-300},
            "control_scale is 1e-300, want greater than or equal to 0.000001",
        ),
        ({"local": ["a\nb"]}, r"local is \['a\\nb'\], want patterns of names, in one line each"),
        ({"local": ["\0"]}, "want patterns of names"),
        ({"local": ["head.*", ""]}, "want patterns of names"),
        ({"local": ["a\u2028b"]}, "want patterns of names"),
        ({"hostile": 10**60}, "hostile is 10+, want less than or equal to"),
        ({"devices": 10**60}, "devices is 10+, want less than"),
        ({"max_failures": 10**60}, "max_failures is 10+, want less than or equal to"),
        ({"clip_noise": 1e-200}, r"clip_noise is 1e-200, want greater than or equal to 0\.001"),
        *(
            ({name: value}, f"setting {name} is .*, want ")
            for name in ("clip_norm", "clip_value", "loss_cap")
            for value in (1e308, 1e-320, math.inf, math.nan)
        ),
    ],
)
def test_a_setting_that_is_no_usable_number_or_name_is_refused(given, wrong):
    with pytest.raises(errors.SettingsError, match=wrong):
        TaskSettings.checked(name="t", **given)


def test_an_operator_is_told_of_sums_over_too_few_devices(tmp_path, capsys, caplog):
    model, weights = tmp_path / "model.ms", tmp_path / "weights"
    model.write_bytes(MODEL)
    weights.write_bytes(START.tobytes())
    with serving(tmp_path) as server:
        place = ["--server", server.url, "--folder", str(server.service.settings.folder)]
        task = ["task", "t", "--model", str(model), "--weights", str(weights), *place]
        sizes = ["--set", "shard_size=30", "--set", "min_cohort=20", "--set", "target_cohort=60"]
        assert serve([*task, *sizes]) == 0
    said = "task t: a sum may be over 15 devices: all that have not lowered their floor of 20"
    assert said in capsys.readouterr().err
    assert said in caplog.text
    fine = {"shard_size": 40, "min_cohort": 20, "target_cohort": 60}
    assert task_checks.warnings(TaskSettings.checked(name="t", **fine)) == []
