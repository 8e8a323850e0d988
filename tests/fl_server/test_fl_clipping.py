"""A clip norm that follows the updates, and the noise that is made for it."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fl_fleet import LENGTH, MODEL, serving, task_settings
from fl_people import seeded
from test_fl_buffers import Trained, go_through, world_of

from fl_server import task_checks
from fl_server.device import Device, Policy
from fl_server.errors import SettingsError
from fl_server.privacy import Privacy, sensitivity
from fl_server.rounds import record
from fl_server.secagg import client
from fl_server.secagg.encode import Mean, Update, checksum, decode, encode
from fl_server.secagg.mask import reduce_ring
from fl_server.secagg.params import complete_graph
from fl_server.storage.ledger import Ledger
from fl_server.task_settings import TaskSettings

START = np.zeros(LENGTH, np.float32)


class Constant:
    """A device whose updates have one norm, whatever the weights."""

    def __init__(self, norm: float, loss: float = 0.0) -> None:
        self.norm, self.loss = norm, loss

    def train(self, weights, model):
        delta = np.full(weights.size, self.norm / math.sqrt(weights.size), np.float32)
        return Update(delta, loss=self.loss)


def run(folder, length, norms, liars=(), **settings):
    """liars: devices that are known by a loss of 7"""
    with serving(folder) as server, server.operator() as operator:
        start = np.zeros(length, np.float32)
        operator.create_task("t", MODEL, start, **task_settings(len(norms), **settings))

        def part(i: int) -> None:
            trainer = Constant(norms[i], 7.0 if i in liars else 0.0)
            arguments = server.url, folder / f"device-{i}", trainer, server.authority
            policy = Policy(2, unmasked=settings.get("aggregation") == "unmasked")
            with Device(*arguments, server.enrol_token, policy=policy) as device:
                list(device.run(until_idle=True))

        with ThreadPoolExecutor(len(norms)) as pool:
            list(pool.map(part, range(len(norms))))
        status = operator.status("t")
        return status, [operator.weights("t", v) for v in range(settings["rounds"] + 1)]


@pytest.mark.parametrize(("quantile", "low", "high"), [(0.5, 10.0, 11.0), (0.9, 18.0, 19.0)])
def test_the_norm_comes_to_the_quantile_of_what_devices_send(quantile, low, high):
    settings = TaskSettings(name="t", clip_norm=0.5, clip_value=0.5, clip_quantile=quantile)
    clip, norms = settings.adaptive_clip, np.arange(1.0, 21.0)  # half of them below 10.5
    norm = clip.first
    for number in range(150):
        encoding = settings.encoding(LENGTH, norm)
        params = complete_graph(len(norms), encoding)
        words = [
            encode(Constant(n).train(START, b""), params, bytes(32), bytes([number] * 32))
            for n in norms
        ]
        total = reduce_ring(np.sum(words, axis=0, dtype=words[0].dtype), params.ring_bits)
        mean = decode(total, len(norms), params, bytes(32))
        norm = clip.after(norm, mean.within_clip, mean.clients)
    assert 0.97 * low <= norm <= 1.03 * high
    assert encoding.clip_value == encoding.clip_norm  # their ratio is the settings'


def test_rounds_are_offered_the_norm_that_the_rounds_before_led_to(tmp_path):
    settings = {"rounds": 4, "clip_norm": 1.0, "clip_value": 1.0}
    settings |= {"clip_quantile": 0.5, "clip_rate": 0.7}
    status, weights = run(tmp_path, 4, [0.2, 5.0, 5.0], **settings)
    used = [entry["clip_norm"] for entry in status["rounds"]]
    share = [entry["within_clip"] / 3 for entry in status["rounds"]]
    for n in range(3):
        want = used[n] * math.exp(-0.7 * (share[n] - 0.5))
        assert used[n + 1] == status["rounds"][n]["next_clip_norm"] == pytest.approx(want)
    assert used[3] > used[0] == 1.0
    for n, norm in enumerate(used):  # what devices sent was clipped to that norm
        sent = (0.2 + 2 * norm) / 3
        assert np.linalg.norm(weights[n + 1] - weights[n]) == pytest.approx(sent, rel=1e-3)


def test_noise_and_account_are_for_the_norm_that_the_devices_had(tmp_path):
    length, z = 20_000, 2.0
    settings = {"rounds": 3, "clip_norm": 1.0, "clip_value": 20.0, "noise_multiplier": z}
    settings |= {"clip_quantile": 0.1, "clip_rate": 1.0, "clip_noise": 0.5}
    status, weights = run(tmp_path, length, [0.0] * 3, **settings)
    checked = TaskSettings(name="t", **settings)
    for n, entry in enumerate(status["rounds"]):
        encoding = checked.encoding(length, entry["clip_norm"])
        want = z * sensitivity(encoding) / 3
        assert np.std(weights[n + 1] - weights[n]) == pytest.approx(want, rel=0.03)
        assert "within_clip" not in entry
    assert status["rounds"][2]["clip_norm"] < 0.6
    told = Ledger(tmp_path / "server" / "privacy" / "t").noises()
    assert told == [pytest.approx((z**-2 + 0.5**-2) ** -0.5)] * 3
    assert status["privacy"]["epsilon"] == pytest.approx(Privacy(z, 1e-5).spent([z, 0.5] * 3))


def test_the_count_has_its_noise_and_tells_nothing_where_the_sum_wraps():
    params = complete_graph(5, TaskSettings(name="t").encoding(LENGTH))
    privacy, ring = Privacy(1.0, 1e-5, count_noise=2.0), 2**params.ring_bits
    draws, found = seeded("count"), {}
    for within in (0, 3, 5, ring - 1):
        mean = Mean(np.zeros(LENGTH), 5, 5, 0.0, 0, 0, within, 0)
        counts = np.array([privacy.noisy_count(mean, params, draws) for _ in range(4000)])
        found[within] = counts.mean()
        assert counts.std() == pytest.approx(2.0, rel=0.1)
    # One below zero is a step from zero, not from the other end.
    assert found == pytest.approx({0: 0.0, 3: 3.0, 5: 5.0, ring - 1: -1.0}, abs=0.2)


def test_the_norm_stays_within_what_devices_take():
    clip = TaskSettings(name="t", clip_norm=2.0, clip_value=4.0, clip_quantile=0.5).adaptive_clip
    norms = [2.0, 2.0]
    for _ in range(500):
        norms = [clip.after(norms[0], 0, 9), clip.after(norms[1], 9, 9)]
    assert norms == [50.0, 2e-3]  # where clip_value is 100
    assert clip.after(2.0, -4.0, 9, noise=1.0) == clip.after(2.0, 0, 9)


def test_a_count_that_is_none_moves_no_norm():
    clip = TaskSettings(name="t", clip_norm=2.0, clip_quantile=0.5).adaptive_clip
    for within, clients, noise in [(10, 9, 0), (-1, 9, 0), (16, 9, 1), (-7, 9, 1), (0, 0, 0)]:
        assert clip.after(2.0, within, clients, noise) == 2.0
    assert clip.after(2.0, 9, 9) < 2.0 < clip.after(2.0, 0, 9)


@pytest.mark.parametrize("lie", [60_000, -5])
@pytest.mark.parametrize("aggregation", ["secure", "unmasked"])
def test_one_hostile_device_does_not_steer_the_norm(tmp_path, monkeypatch, aggregation, lie):
    """It says more than a bit of whether its update was within; the others are, all of them."""

    def lying(update, params, session, seed):
        words = encode(update, params, session, seed)
        if update.loss == 7.0:
            words[-3] += words.dtype.type(lie % 2**params.ring_bits)
            words[:] = reduce_ring(words, params.ring_bits)
            words[-1] = checksum(words[:-1], params, session)
        return words

    monkeypatch.setattr(client, "encode", lying)
    settings = {"rounds": 1, "clip_norm": 1.0, "clip_value": 1.0, "clip_quantile": 0.5}
    settings |= {"clip_rate": 1.0, "aggregation": aggregation, "shard_size": 4, "min_cohort": 8}
    status, _ = run(tmp_path, 4, [0.2] * 8, liars={0}, **settings)
    (entry,) = status["rounds"]
    assert entry["next_clip_norm"] == pytest.approx(math.exp(-0.5))
    if aggregation == "unmasked":
        assert len(entry["blamed"]) == 1
        assert entry["within_clip"] == entry["survivors"] == 7


def test_the_norm_of_buffers_goes_on_from_the_newest(tmp_path):
    world = world_of(tmp_path, clip_norm=8.0, clip_quantile=0.5, clip_rate=0.2)
    groups = [[Trained(world, i) for i in group] for group in ((0, 1), (2, 3))]
    for group in groups:
        for device in group:
            device.join()
        go_through(world, group)
    first, second = record.of_task(world.store, "t")[:2]
    assert (first["clip_norm"], second["clip_norm"], second["staleness"]) == (8.0, 8.0, 1)
    step = math.exp(-0.2 * (1 - 0.5))  # all are within
    assert first["next_clip_norm"] == pytest.approx(8 * step)
    assert second["next_clip_norm"] == pytest.approx(8 * step**2)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"clip_noise": 1.0}, "clip_noise is set, want clip_quantile and noise_multiplier"),
        ({"clip_quantile": 1.0}, "setting clip_quantile is 1.0, want less than 1"),
        ({"clip_quantile": 0.5, "kind": "evaluate"}, "an evaluation has no clip norm"),
    ],
)
def test_settings_that_make_no_sense_are_refused(given, words):
    with pytest.raises(SettingsError, match=words):
        task_checks.check(TaskSettings.checked(name="t", **given), LENGTH)
