"""How much memory runs take: what was planned, little over what any plan needs, shared files."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import lite_runtime as lite
from bench import infer, memory, opening, training
from cloud import models
from converter import TrainSpec, convert
from ir import model_file
from ir.graph import Graph, Model, Value, Weight
from ir.op import OPS
from lite_runtime import cli
from lite_runtime.bench import random_inputs
from tests.lite_runtime.control_models import factorial, newton
from tests.lite_runtime.models import cnn_batch, open_model, small_cnn


@pytest.mark.parametrize("name", training.CASES)
def test_a_training_step_takes_little_over_what_no_plan_could_do_without(name: str) -> None:
    session, inputs = memory.trainer(name)
    row = memory.of_run(name, session, "train", inputs)
    assert 0 < row.results <= row.bound
    assert row.bound <= row.taken == row.planned <= 1.1 * row.bound


@pytest.mark.parametrize("name", ["lenet", "dscnn 64"])
def test_inference_takes_little_over_what_no_plan_could_do_without(
    name: str, tmp_path: Path
) -> None:
    for path in infer.Prepared(name, infer.CASES[name], tmp_path).ours.values():
        session = lite.load(path)
        row = memory.of_run(name, session, "infer", random_inputs(session))
        assert row.bound <= row.taken == row.planned <= 1.1 * row.bound


def test_the_bound_is_what_one_node_needs() -> None:
    """By hand: `a` and `b` are alive while the product is made, which takes the place of one."""
    x = Value((100,), name="x")
    a, b = (OPS["softmax"](v, axis=0) for v in (x, x + x))
    wide = OPS["concat"](a * b, x, x, axis=0)
    session = open_model(Graph((x,), (OPS["softmax"](wide, axis=0),)))
    assert memory.least_bytes(session, "infer", scratch=False) == 2 * 4 * 300


def test_inspect_prints_what_a_run_takes(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = tmp_path / "model.ms"
    for model in (small_cnn(), Model({"infer": newton()})):
        model_file.save(model, path)
        cli.inspect([str(path)])
        text = capsys.readouterr().out
        session = lite.load(path)
        for entry in session.entries:
            session.run(random_inputs(session, entry), entry)
            taken = f"memory    {session.peak_bytes(entry) / 1000:,.1f} kB planned"
            assert taken in text, entry


def test_recursion_and_tapes_take_more_than_the_plan_and_say_so() -> None:
    session = open_model(Model({"infer": factorial()}))
    assert session.peak_bytes() == 0
    taken = []
    for n in (3, 30):
        session.run(np.int32(n))
        taken.append(session.peak_bytes())
    assert session.planned_bytes() < taken[0] < taken[1]


def heavy_model() -> Model:
    """16 MB of weights that nothing trains."""
    w = Weight(np.ones((2048, 2048), np.float32), name="w", trainable=False)
    x = Value((1, 2048), name="x")
    return Model({"infer": Graph((x,), (x @ w,))})


def mapped_kilobytes(path: Path) -> tuple[int, dict[str, int]]:
    """How often this process maps a file, and the sums of some fields of /proc/self/smaps of it."""
    sums = {"Rss": 0, "Pss": 0, "Private_Dirty": 0, "Anonymous": 0}
    parts = re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text())
    mine = [p for p in parts if p.split("\n")[0].endswith(str(path))]
    for part in mine:
        for field in sums:
            sums[field] += int(re.search(rf"^{field}: +(\d+) kB", part, re.M).group(1))
    return len(mine), sums


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="no /proc/self/smaps")
def test_sessions_of_one_file_share_the_pages_of_its_weights(tmp_path: Path) -> None:
    path = tmp_path / "heavy.ms"
    model_file.save(heavy_model(), path)
    x = np.ones((1, 2048), np.float32)
    sessions = [lite.load(path) for _ in range(2)]
    for session in sessions:
        assert session.run(x)[0, 0] == 2048
    count, kilobytes = mapped_kilobytes(path)
    assert count == 2
    assert kilobytes["Rss"] > 2 * 16_000  # all of it is there, for both
    assert kilobytes["Pss"] < 1.1 * kilobytes["Rss"] / 2  # and is the same pages
    assert kilobytes["Private_Dirty"] == kilobytes["Anonymous"] == 0


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="no /proc/self/smaps")
def test_weights_that_train_are_copied_when_they_change_and_for_their_session_alone(
    tmp_path: Path,
) -> None:
    path = tmp_path / "model.ms"
    model_file.save(opening.large_model(frozen=1, trained=1, side=512), path)
    file, inputs = path.read_bytes(), {"x": np.ones((1, 512), np.float32), "lr": 1.0}
    trained, other = lite.load(path), lite.load(path)
    assert mapped_kilobytes(path)[1]["Anonymous"] == 0
    trained.train_run(1, lambda step: None)
    trained.run(inputs)
    assert 2048 <= mapped_kilobytes(path)[1]["Anonymous"] <= 2048 + 2 * 8  # a weight and its state
    assert trained.weights()["w0"][0, 0] == pytest.approx(0.9)
    assert other.weights()["w0"][0, 0] == 1
    assert path.read_bytes() == file
    trained.save(path)  # by renaming: `other` keeps what it has mapped
    assert other.to_bytes() == file
    assert lite.load(path).weights()["w0"][0, 0] == pytest.approx(0.9)


@pytest.mark.parametrize("trainable", [["*"], ["fc*"]])
def test_a_file_promises_the_memory_that_training_takes(
    trainable: list[str], tmp_path: Path
) -> None:
    net = models.lenet(10, rng=np.random.default_rng(0))
    net.name_weights()
    source = Model({"infer": infer_graph(net)})
    spec = TrainSpec(trainable=trainable, accumulate=True)
    convert(source, tmp_path / "lenet.ms", train=spec)
    session = lite.load(tmp_path / "lenet.ms")
    rng = np.random.default_rng(1)
    for batch in (1, 2, 5, 9, 14, 20, 26, 32, 64, 200):
        image = rng.random((batch, 28, 28, 1), np.float32)
        inputs = {"image": image, "label": np.zeros(batch, np.int32)}
        for entry, more in (("train", {"lr": 0.1}), ("accumulate", {"share": 1.0})):
            session.run(inputs | more, entry)
            promised = eval(session.metadata[f"memory.{entry}"], {"max": max, "batch": batch})
            assert session.peak_bytes(entry) == pytest.approx(promised, rel=0.05), (entry, batch)


def infer_graph(net: object) -> Graph:
    from cloud.train.graphs import inference_graph

    return inference_graph(net, {"image": ("batch", 28, 28, 1)})


def test_an_entry_without_free_dimensions_promises_a_number(tmp_path: Path) -> None:
    x = Value((4, 2), name="x")
    w = Weight(np.zeros((2, 3), np.float32), name="w")
    source = Model({"infer": Graph((x,), (x @ w,))})
    convert(source, tmp_path / "m.ms", train=TrainSpec())
    session = lite.load(tmp_path / "m.ms")
    assert session.metadata["memory.train"] == str(session.planned_bytes("train"))


def test_a_profile_tells_the_scratch_of_a_kernel() -> None:
    session = open_model(small_cnn())
    nodes = session.profile(cnn_batch(2), "train").nodes
    assert all(n.scratch_bytes >= 0 for n in nodes)
    assert sum(n.scratch_bytes for n in nodes) > 0 or {n.kernel for n in nodes} == {"ref"}
