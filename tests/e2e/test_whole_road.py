"""The whole road on real data: Python → graph → .ms → library → ms-serve → devices → report.

One short run of the demo's own code; each test looks at another part of what it left behind.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lite_runtime as lite
from cloud.nas import Library, device_id
from cloud.nas.cli import main as ms_library
from examples.watch import data, federate, recipe, report
from examples.watch.run import Demo, Settings
from fl_server.device import Device, Update
from fl_server.secagg.encode import SEED_SIZE, decode, encode
from fl_server.secagg.params import complete_graph
from fl_server.secagg.policy import COHORT_FLOOR
from fl_server.secagg.run import Stage
from fl_server.strategy.average import FedAvg
from fl_server.task_settings import TaskSettings
from ir import model_file

PLAN = federate.Plan(rounds=4, local_epochs=3, personal_epochs=3, drop_round=3)
EPOCHS = recipe.Epochs(teacher=6, student=8, tuning=3, variant=1)
SEED = 0


@dataclass
class Life:
    """What a device did from one start to the next: its updates and the bytes that it drew."""

    trainer: Any
    random: Callable[[int], bytes]
    updates: list[Update] = field(default_factory=list)
    seeds: list[bytes] = field(default_factory=list)

    def train(self, weights: np.ndarray, model: bytes) -> Update:
        self.updates.append(self.trainer.train(weights, model))
        return self.updates[-1]

    def draw(self, size: int) -> bytes:
        drawn = self.random(size)
        if size == SEED_SIZE:
            self.seeds.append(drawn)
        return drawn


class Watched(federate.Fleet):
    """The demo's fleet; what each device does is kept."""

    lives: dict[int, list[Life]]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        Watched.lives = {i: [] for i in range(len(self.devices))}

    def trainer(self, i: int) -> Life:
        random = np.random.default_rng([i, len(self.lives[i])])
        self.lives[i].append(Life(super().trainer(i), random.bytes))
        return self.lives[i][-1]

    def device(self, i: int, **more: Any) -> Device:
        return super().device(i, random=lambda size: self.lives[i][-1].draw(size), **more)


@dataclass(frozen=True)
class Road:
    folder: Path
    watch: data.WatchData
    result: dict[str, Any]
    said: list[str]
    lives: dict[int, list[Life]]

    @property
    def outcome(self) -> dict[str, Any]:
        return dict(self.result["outcome"])


@pytest.fixture(scope="module")
def road(watch_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Road:
    cache, out = watch_file.parent, tmp_path_factory.mktemp("demo")
    watch = data.split(data.load(watch_file), SEED)
    said: list[str] = []
    demo = Demo(out, cache, said.append, settings=Settings(EPOCHS, PLAN), fleet=Watched)
    return Road(out / f"seed{SEED}", watch, demo.seed(SEED), said, Watched.lives)


def test_federation_of_at_least_twenty_devices_beats_the_base(road: Road) -> None:
    outcome = road.outcome
    assert len(outcome["names"]) >= COHORT_FLOOR
    assert np.mean(outcome["federated"]) > np.mean(outcome["before"]) + 0.03
    assert np.mean(outcome["personalised"]) > np.mean(outcome["federated"])
    assert len(outcome["by_round"]) == PLAN.rounds + 1
    assert outcome["by_round"][0] == pytest.approx(np.mean(outcome["before"]))
    assert outcome["by_round"][-1] == pytest.approx(np.mean(outcome["federated"]))


def test_three_devices_vanish_at_different_stages_and_come_back(road: Road) -> None:
    wanted = [
        [road.outcome["names"][i], PLAN.drop_round, stage.name.lower()] for i, stage in PLAN.dropped
    ]
    assert road.outcome["dropped"] == wanted
    for i, _ in PLAN.dropped:
        reports = road.outcome["reports"][i]
        assert [r["round"] for r in reports] == list(range(1, PLAN.rounds + 1))
        assert [r["outcome"] for r in reports].count("done") == PLAN.rounds - 1
    # Only the one that sent no vector is missing from the sum.
    told = road.outcome["rounds"][PLAN.drop_round - 1]
    devices = len(road.outcome["names"])
    assert (told["clients"], told["survivors"]) == (devices, devices - 1)


def test_the_secure_sum_is_federated_averaging_of_the_survivors_bit_for_bit(road: Road) -> None:
    heads = np.load(road.folder / "heads.npy")
    number = PLAN.drop_round
    told = road.outcome["rounds"][number - 1]
    session = bytes.fromhex(told["session"])
    settings = TaskSettings(name="t", clip_norm=federate.CLIP, clip_value=federate.CLIP)
    params = complete_graph(told["clients"], settings.encoding(heads.shape[1]))
    last_stage = dict(PLAN.dropped)
    words = []
    for i, lives in road.lives.items():
        if last_stage.get(i, Stage.REVEAL) < Stage.VECTOR:
            continue
        # Who vanished lived before, in and after that round; of a round, the last draw rounds.
        first, *_ = lives
        draws = 4 * number + 1 if i not in last_stage else 4
        life = lives[1] if i in last_stage else first
        update = life.updates[0 if i in last_stage else number - 1]
        words.append(encode(update, params, session, life.seeds[draws - 1]).astype(np.uint64))
    assert len(words) == told["survivors"]
    total = np.sum(words, axis=0, dtype=np.uint64) & np.uint64(2**params.ring_bits - 1)
    mean = decode(total.astype(np.uint32), len(words), params, session)
    strategy, before = FedAvg(PLAN.server_rate), heads[number - 1]
    expected, _ = strategy.apply(before, mean, strategy.start(len(before)))
    np.testing.assert_array_equal(heads[number], expected)
    assert np.abs(heads[number] - heads[number - 1]).max() > 0


def test_a_round_sends_far_less_than_the_data_of_a_device(road: Road) -> None:
    whole = [r for d in road.outcome["reports"] for r in d if r["outcome"] == "done"]
    own = min(d.train.x.nbytes for d in road.watch.devices)
    assert 0 < max(r["bytes_up"] for r in whole) < own / 10
    assert all(r["bytes_down"] > 0 for r in whole)


def test_the_files_of_federation_and_of_each_device_differ_in_the_head_alone(road: Road) -> None:
    base = model_file.load(road.folder / "device.ms")
    paths = [road.folder / "federated.ms", *road.folder.glob("devices/*/personal.ms")]
    assert len(paths) == 1 + len(road.watch.devices)
    heads = set()
    for path in paths:
        changed = _changed(base, model_file.load(path))
        memory = {name for name in changed if name.startswith("optimizer.momentum.head.")}
        assert changed - memory == {"head.weight", "head.bias"}, path
        heads.add(lite.load(path).weights()["head.weight"].tobytes())
    assert len(heads) == len(paths)  # everybody's own


def _changed(before: Any, after: Any) -> set[str]:
    """The names of the weights that differ, of two models that are otherwise alike."""
    assert before.entries.keys() == after.entries.keys()
    for name in before.entries:
        assert str(before.entries[name]) == str(after.entries[name])
    old, new = ({w.name: w.data for w in m.weights} for m in (before, after))
    assert old.keys() == new.keys()
    return {name for name in old if not np.array_equal(old[name], new[name])}


def test_the_files_give_the_accuracies_of_the_report(road: Road) -> None:
    outcome, device = road.outcome, road.watch.devices[0]
    paths = {
        "before": road.folder / "device.ms",
        "federated": road.folder / "federated.ms",
        "personalised": road.folder / "devices" / device.name / "personal.ms",
    }
    for when, path in paths.items():
        assert recipe.accuracy_of_file(path, device.test) == pytest.approx(outcome[when][0]), when
    others = recipe.accuracy_of_file(paths["federated"], road.watch.validation)
    assert others == pytest.approx(outcome["new_people"][1])


def test_compression_shrinks_the_file_at_every_step(road: Road) -> None:
    stages = road.result["stages"]
    assert [s["name"] for s in stages] == ["teacher", "student", "pruned", "int8 base"]
    sizes = [s["size_bytes"] for s in stages]
    assert sizes == sorted(sizes, reverse=True)
    assert all(s["latency_ms"] > 0 and s["accuracy"] > 0.4 for s in stages)
    weights = lite.load(road.folder / "device.ms").weights()
    assert {str(w.dtype) for name, w in weights.items() if name.startswith("head.")} == {"float32"}
    assert "int8" in {str(w.dtype) for w in weights.values()}


def test_the_library_takes_the_models_in_and_search_gives_one_that_runs(
    road: Road, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = Library(tmp_path)
    for stage, name in zip(road.result["stages"], ("teacher", "student", "pruned"), strict=False):
        path = road.folder / f"{name}.ms"
        library.add(name, path, task=recipe.TASK, accuracy=stage["accuracy"])
    times = {name: e.latency_ms[device_id(1)] for name, e in library.entries.items()}
    limit = sorted(times.values())[1]
    assert ms_library(["search", str(tmp_path), "--latency-ms", repr(limit), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    fitting = [name for name, ms in times.items() if ms <= limit]
    best = max(fitting, key=lambda name: library.entries[name].accuracy)
    assert found["accuracy"] == library.entries[best].accuracy
    accuracy = recipe.accuracy_of_file(Path(found["path"]), road.watch.validation)
    assert accuracy == pytest.approx(found["accuracy"])


def test_the_run_is_reused_while_nothing_changed_and_shown_in_the_report(road: Road) -> None:
    out, said = road.folder.parent, list[str]()
    nowhere = out / "no data needed"
    again = Demo(out, nowhere, said.append, settings=Settings(EPOCHS, PLAN)).seed(SEED)
    assert said == [f"seed {SEED}: unchanged since the last run, reused"]
    assert again == road.result
    model = {"name": "m", "size_bytes": 1, "accuracy": 0.5, "latency_ms": {"d": 1.0}}
    library = {"models": [model], "device": "d", "limit_ms": 1.0, "best": "m", "seconds": 0.0}
    text = report.text(report.summarise([again], library))
    for name in road.outcome["names"]:
        assert name in text
