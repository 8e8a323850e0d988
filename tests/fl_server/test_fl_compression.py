"""Fewer bits, fewer coordinates, differences of weights: unbiased or exact, and smaller."""

from __future__ import annotations

import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fl_fleet import MODEL, serving, task_settings
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, stats

from fl_server import task_checks
from fl_server.device import Device, Policy
from fl_server.device.linear import LinearTrainer
from fl_server.errors import EncodingMismatch, Malformed, SettingsError
from fl_server.plan.coordinates import chosen, hadamard, rotate, rotate_back
from fl_server.plan.plan import Plan
from fl_server.secagg.encode import Update, decode, encode
from fl_server.secagg.mask import reduce_ring
from fl_server.secagg.params import complete_graph
from fl_server.storage.differences import difference, patched
from fl_server.storage.weights import weights_bytes
from fl_server.task_settings import TaskSettings

LENGTH = 12
SEED = bytes(range(32))


def summed(task: TaskSettings, updates: list[np.ndarray], number: int) -> np.ndarray:
    """The mean that a server reads of devices' words in a round of this number."""
    plan, length = task.plan(), updates[0].size
    params = complete_graph(len(updates), task.encoding(length))
    seed = bytes([number % 256, number // 256]) * 16
    words = [
        encode(Update(plan.pack(u, None, seed)), params, bytes(32), bytes([i]) * 16 + seed[:16])
        for i, u in enumerate(updates)
    ]
    total = reduce_ring(np.sum(words, axis=0, dtype=words[0].dtype), params.ring_bits)
    mean = decode(total, len(updates), params, bytes(32)).delta
    return plan.unpack(mean, length, seed)


@pytest.mark.parametrize(
    "asked",
    [
        {"value_bits": 2},
        {"value_bits": 4, "rotate": True},
        {"value_bits": 16, "kept": 0.25},
        {"value_bits": 3, "kept": 0.5, "rotate": True},
    ],
)
def test_what_the_server_reads_is_unbiased(asked):
    task = TaskSettings(name="t", clip_norm=50.0, clip_value=4.0, **asked)
    rng = np.random.default_rng(0)
    updates = [rng.normal(size=LENGTH).astype(np.float32) for _ in range(2)]
    found = np.array([summed(task, updates, number) for number in range(1500)])
    error = (found.mean(axis=0) - np.mean(updates, axis=0)) / (found.std(axis=0) / np.sqrt(1500))
    assert found.std(axis=0).mean() > 0.1  # a single round does err
    assert np.abs(error).max() < 4.5


def test_a_rotation_is_hadamards_and_turns_back():
    x = np.random.default_rng(1).normal(size=13)
    np.testing.assert_allclose(hadamard(np.eye(8)[3]), linalg.hadamard(8)[3])
    turned = rotate(x, SEED)
    assert turned.shape == (16,)
    assert np.linalg.norm(turned) == pytest.approx(np.linalg.norm(x))
    np.testing.assert_allclose(rotate_back(turned, 13, SEED), x, atol=1e-12)
    assert np.abs(rotate(x, bytes(32)) - turned).max() > 0.1


def test_rotated_updates_need_fewer_bits():
    spiky = np.zeros(1024, np.float32)
    spiky[[3, 700]] = 3.0, -2.0
    errors = {}
    for rotated, clip_value in ((False, 3.0), (True, 0.5)):  # what the largest coordinate needs
        task = TaskSettings(name="t", clip_value=clip_value, value_bits=4, rotate=rotated)
        errors[rotated] = np.linalg.norm(summed(task, [spiky] * 2, 0) - spiky)
    assert errors[True] < 0.25 * errors[False]


def test_each_round_chooses_other_coordinates_and_all_alike_often():
    counts = np.zeros(40)
    for number in range(600):
        places = chosen(10, 40, bytes([number % 256, number // 256]) * 16)
        assert len(set(places)) == 10
        np.testing.assert_array_equal(places, np.sort(places))
        counts[places] += 1
    assert stats.chisquare(counts).pvalue > 0.001
    np.testing.assert_array_equal(chosen(10, 40, SEED), chosen(10, 40, SEED))


def learner(i: int, length: int) -> LinearTrainer:
    """More weights than examples, and steps that are small enough for that."""
    hidden = np.random.default_rng(0).normal(size=length) / np.sqrt(length)
    rng = np.random.default_rng([5, i])
    x = rng.normal(size=(40, length)).astype(np.float32)
    return LinearTrainer(x, (x @ hidden).astype(np.float32), steps=10, rate=20 / length)


def run(folder, length, **asked):
    """Status and the devices' reports of three devices of a linear model."""
    with serving(folder) as server, server.operator() as operator:
        start = np.zeros(length, np.float32)
        operator.create_task("t", MODEL, start, **task_settings(3, **asked))

        def part(i: int):
            trainer = learner(i, length)
            arguments = server.url, folder / f"device-{i}", trainer, server.authority
            with Device(*arguments, server.enrol_token, policy=Policy(2)) as device:
                return list(device.run(until_idle=True))

        with ThreadPoolExecutor(3) as pool:
            reports = list(pool.map(part, range(3)))
        return operator.status("t"), reports


def test_bytes_are_saved_as_announced_and_rounds_still_learn(tmp_path):
    length = 300
    plain = {"rounds": 1, "clip_norm": 100.0, "clip_value": 8.0}
    few = (
        plain | {"rounds": 3} | {"value_bits": 8, "rotate": True, "kept": 0.5, "learning_rate": 0.5}
    )
    found = {name: run(tmp_path / name, length, **s) for name, s in (("a", plain), ("b", few))}
    sizes = []
    for asked in (plain, few):
        encoding = TaskSettings(name="t", **asked).encoding(length)
        sizes.append(complete_graph(3, encoding).vector_size)
    assert sizes == [(300 + 7) * 18 // 8 + 1, (256 + 7) * 10 // 8 + 1]
    up = [reports[0][0].bytes_up for _, reports in found.values()]
    assert up[0] - up[1] == sizes[0] - sizes[1] > 300
    losses = [entry["loss"] for entry in found["b"][0]["rounds"]]
    assert losses[-1] < 0.8 * losses[0]


def test_a_device_downloads_what_changed(tmp_path):
    length = 5000
    _, reports = run(tmp_path, length, rounds=3, kept=0.1, clip_norm=100.0, min_cohort=3)
    first, *later = (report.bytes_down for report in reports[0])
    assert first > 4 * length
    # A tenth of the coordinates changed; all else of a round is some kilobytes.
    assert max(later) < 0.4 * first
    assert [report.outcome for report in reports[0]] == ["done"] * 3


def test_weights_that_the_server_does_not_know_are_replaced_by_the_whole(tmp_path):
    length = 3000
    with serving(tmp_path) as server, server.operator() as operator:
        start = np.arange(length, dtype=np.float32)
        operator.create_task("t", MODEL, start, **task_settings(2, min_cohort=2, clip_norm=1e-3))
        trainers = [learner(i, length) for i in range(2)]
        devices = [
            Device(
                server.url,
                tmp_path / f"device-{i}",
                trainers[i],
                server.authority,
                server.enrol_token,
                policy=Policy(2),
            )
            for i in range(2)
        ]
        fetched = []
        for device in devices:
            device.enrol()
            downloads = device._learning._downloads
            digest = bytes.fromhex(operator.versions("t")[0]["digest"])
            for kept in (b"", weights_bytes(start + 1), b"damaged"):
                folder = device.folder / "weights"
                for path in folder.glob("*"):
                    path.write_bytes(kept)
                before = device._http.traffic.down
                np.testing.assert_array_equal(downloads.weights(digest, "t"), start)
                fetched.append(device._http.traffic.down - before)
            before = device._http.traffic.down
            downloads.weights(digest, "t")  # it has them
            assert device._http.traffic.down == before
            device.close()
    assert min(fetched) >= 4 * length
    assert max(fetched) < 4 * length + 200  # with the refusal of a base


@given(st.binary(max_size=64), st.binary(max_size=64))
@settings(max_examples=60, deadline=None)
def test_a_difference_gives_the_same_bytes(a, b):
    size = min(len(a), len(b)) // 4 * 4
    base, new = a[:size], b[:size]
    assert patched(base, difference(base, new)) == new


def test_weights_that_are_damaged_on_a_device_that_runs_are_replaced_by_the_whole(tmp_path):
    length = 3000
    with serving(tmp_path) as server, server.operator() as operator:
        start = np.arange(length, dtype=np.float32)
        operator.create_task("t", MODEL, start, **task_settings(2, min_cohort=2))
        arguments = learner(0, length), server.authority, server.enrol_token
        with Device(server.url, tmp_path / "device", *arguments, policy=Policy(2)) as device:
            device.enrol()
            downloads = device._learning._downloads
            first = bytes.fromhex(operator.versions("t")[0]["digest"])
            for damaged in (weights_bytes(start + 1), b"damaged", b""):
                downloads.weights(first, "t")
                newer = start + len(damaged)
                with server.service.store.begin() as db:
                    digest = server.service.rounds.weights.add(db, "t", newer, 0).digest
                server.service.rounds.begin_anew("there are newer weights")
                (kept,) = (device.folder / "weights").iterdir()
                kept.write_bytes(damaged)
                np.testing.assert_array_equal(downloads.weights(digest, "t"), newer)


def test_a_difference_is_one_stream_of_zlib_and_stores_what_does_not_compress():
    rng = np.random.default_rng(0)
    base = rng.normal(0, 1, 20_000).astype(np.float32)
    new = base + rng.normal(0, 0.01, 20_000).astype(np.float32)
    made = difference(base.tobytes(), new.tobytes())
    bits = (base.view(np.uint32) ^ new.view(np.uint32)).view(np.uint8)
    planes = [plane.tobytes() for plane in bits.reshape(-1, 4).T]
    assert zlib.decompress(made) == b"".join(planes)
    assert planes[0] in made[:20_020]
    assert len(made) < 0.72 * base.nbytes


@pytest.mark.parametrize(
    "change",
    [b"", b"no zlib", zlib.compress(bytes(1 << 24)), zlib.compress(bytes(4)), None],
)
def test_a_difference_that_is_none_is_refused(change):
    base = bytes(400)
    bad = difference(base, base) + b"more" if change is None else change
    with pytest.raises(Malformed, match="a difference"):
        patched(base, bad)


def test_plans_and_settings_that_make_no_sense_are_refused():
    with pytest.raises(EncodingMismatch, match=r"keeps 1\.5 of all coordinates"):
        Plan.of(Plan(kept=1.5).to_bytes())
    with pytest.raises(SettingsError, match=r"keeps 0\.99 of 12 coordinates, so all"):
        task_checks.check(TaskSettings.checked(name="t", kept=0.99), LENGTH)
    with pytest.raises(SettingsError, match=r"kept is 0\.5, want 1 with scaffold"):
        task_checks.check(TaskSettings.checked(name="t", strategy="scaffold", kept=0.5), LENGTH)
    with pytest.raises(SettingsError, match="setting kept is 0"):
        TaskSettings.checked(name="t", kept=0)


@pytest.mark.parametrize(
    "plan",
    [
        Plan(unmasked=2),
        Plan(rotated=255),
        Plan(control_scale=-0.0, rotated=1),
        Plan(controls=bytes(32)),
        Plan(),
    ],
)
def test_a_plan_has_one_form(plan):
    with pytest.raises(EncodingMismatch, match="want"):
        Plan.of(plan.to_bytes())


def test_a_plan_that_leaves_no_coordinate_out_is_refused():
    with pytest.raises(EncodingMismatch, match="of 12 coordinates, so all"):
        Plan(kept=1 - 2**-53).sent(LENGTH)
    assert Plan(kept=1.0).sent(LENGTH) == LENGTH
    assert Plan(kept=11 / 12).sent(LENGTH) == LENGTH - 1
