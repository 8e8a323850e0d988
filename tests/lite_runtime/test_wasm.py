"""lite.wasm and lite.js in Node: the kernels, whole models, training, hostile files, the face."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lite_runtime as lite
from cloud.models import dscnn, lenet
from cloud.nn.loss import softmax_cross_entropy
from cloud.train.graphs import inference_graph, training_model
from cloud.train.optim import SGD
from converter import TrainSpec, convert
from ir import model_file
from ir.dtype import DType
from ir.graph import Graph, Model, Value, Weight
from ir.op import OPS
from tests.helpers import ROOT
from tests.lite_runtime import mutations
from tests.lite_runtime.models import (
    cnn_batch,
    control_models,
    every_dtype,
    indices,
    linear_model,
    small_cnn,
    two_weights,
)
from tests.lite_runtime.web.node import LITE_JS, Job, JobError, array, in_node, run
from tests.native import wasm_build
from tests.test_kernels import Findings, findings, listed

TOOL = ROOT / "tests/lite_runtime/web/tool.mjs"
LIMITS = {  # those of mutations.LIMITS
    "mostMemory": mutations.MOST_MEMORY,
    "mostSteps": mutations.MOST_STEPS,
    "mostDepth": mutations.MOST_DEPTH,
}
MOST_BYTES = 1 << 20  # of the module with all operators
TOO_LARGE = "more than the 2147483647 bytes of memory there can be"


@pytest.fixture(scope="session")
def checked(cases: Path) -> Findings:
    module = wasm_build("check_kernels") / "bin/check_kernels"
    # Node's fast calls of WASI end in a crash now and then (nodejs/node#53087).
    node = ["node", "--no-warnings", "--no-turbo-fast-api-calls"]
    return findings(*node, str(TOOL), str(module), str(cases), "--by-operator")


@pytest.mark.parametrize(("op", "dtype"), listed("wasm"))
def test_wasm_kernel_agrees_with_the_numpy_reference(
    op: str, dtype: str, checked: Findings
) -> None:
    assert checked.of(op, "wasm") == []
    assert checked.passed.get((op, dtype, "wasm"), 0) > 0


def test_checks_and_reference_kernels_hold_on_32_bits(checked: Findings) -> None:
    assert [f for f in checked.failures if not re.match(r"FAIL \w+\[.*\] wasm: ", f)] == []
    assert sum(key[2] == "check" for key in checked.passed) > 100


def test_the_module_is_small() -> None:
    assert (wasm_build("lite_wasm") / "bin/lite.wasm").stat().st_size < MOST_BYTES


def one(model: bytes, *steps: dict[str, Any], **options: Any) -> list[Any]:
    """What the steps gave; the model must open."""
    opened, *results = in_node(Job(model, list(steps), options))[0]
    assert opened is None
    return results


def lenet_model() -> Model:
    net = lenet(rng=np.random.default_rng(0))
    image = {"image": ("batch", 28, 28, 1)}
    return training_model(net, softmax_cross_entropy, SGD(0.05), image)


def digits(size: int, seed: int) -> dict[str, Any]:
    """Inputs of the entry `train` of `lenet_model`."""
    rng = np.random.default_rng(seed)
    image = rng.random((size, 28, 28, 1), np.float32)
    label = rng.integers(0, 10, size).astype(np.int32)
    return {"image": image, "label": label, "lr": np.float32(0.05)}


def test_lenet_gives_what_it_gives_natively() -> None:
    file, image = model_file.write(lenet_model()), digits(5, 1)["image"]
    (found,) = one(file, run({"image": image}))
    (result,) = found.values()
    want = lite.load(file, backend="ref").run(image)
    np.testing.assert_allclose(array(result), want, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def int8_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """DS-CNN with an int8 base and a float32 head that trains."""
    rng = np.random.default_rng(0)
    net = dscnn(rng=rng)
    net.name_weights()
    model = Model({"infer": inference_graph(net, {"x": ("batch", 49, 10, 1)})})
    target = tmp_path_factory.mktemp("int8") / "dscnn.ms"
    samples = rng.standard_normal((32, 49, 10, 1)).astype(np.float32)
    last = [w for w in model.weights if w.name][-1].name.rsplit(".", 1)[0]
    head = TrainSpec(optimizer="sgd:lr=0.1", trainable=[f"{last}.*"])
    calibration = {"x": samples}
    convert(model, target, quantize="int8", calibration=calibration, train=head, tol=1.0)
    return target.read_bytes()


def test_an_int8_network_gives_what_it_gives_natively(int8_file: bytes) -> None:
    assert any(w.dtype == np.int8 for w in lite.load(int8_file).weight_infos)
    x = np.random.default_rng(1).standard_normal((4, 49, 10, 1)).astype(np.float32)
    (found,) = one(int8_file, run({"x": x}))
    (result,) = found.values()
    want = lite.load(int8_file, backend="ref").run(x)
    np.testing.assert_allclose(array(result), want, rtol=1e-5, atol=1e-6)


def test_the_head_of_an_int8_network_trains(int8_file: bytes) -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((8, 49, 10, 1)).astype(np.float32)
    batch = {"x": x, "label": rng.integers(0, 12, 8).astype(np.int32), "lr": np.float32(0.1)}
    first, last, weights = one(
        int8_file, run(batch, "train"), run(batch, "train", times=9), {"do": "weights"}
    )
    session = lite.load(int8_file, backend="ref")
    losses = [float(session.run(batch, "train")["loss"]) for _ in range(10)]
    assert losses[-1] < losses[0]
    found = [float(array(result["loss"])) for result in (first, last)]
    np.testing.assert_allclose(found, [losses[0], losses[-1]], rtol=1e-4)
    compare_weights(weights, session)


def compare_weights(found: Mapping[str, Any], session: lite.Session) -> None:
    want = session.weights()
    assert found.keys() == want.keys()
    for name, weight in want.items():
        got = array(found[name], weight.dtype)
        np.testing.assert_allclose(got, weight, rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", ["lenet", "small_cnn"])
def test_ten_steps_of_training_are_those_of_the_reference(name: str) -> None:
    model, batches = (
        (lenet_model(), [digits(16, seed) for seed in range(10)])
        if name == "lenet"
        else (small_cnn(), [cnn_batch(8, seed) for seed in range(10)])
    )
    file = model_file.write(model)
    *found, weights = one(file, *(run(b, "train") for b in batches), {"do": "weights"})
    session = lite.load(file, backend="ref")
    losses = [session.run(batch, "train")["loss"] for batch in batches]
    np.testing.assert_allclose([array(f["loss"]) for f in found], losses, rtol=1e-4)
    compare_weights(weights, session)


def test_a_saved_model_goes_on_natively_where_it_stopped() -> None:
    file, batches = model_file.write(small_cnn()), [cnn_batch(8, seed) for seed in range(6)]
    *_, saved, ahead = one(
        file, *(run(b, "train") for b in batches[:5]), {"do": "save"}, run(batches[5], "train")
    )
    session = lite.load(base64.b64decode(saved), backend="ref")
    found = session.run(batches[5], "train")["loss"]
    np.testing.assert_allclose(found, array(ahead["loss"]), rtol=1e-4)


def test_weights_are_read_and_set() -> None:
    w = np.float32([[2], [-3]])
    x = np.float32([[1, 1], [4, 1]])
    _, found, weights, infos = one(
        model_file.write(linear_model()),
        {"do": "set", "weights": {"w": w}},
        run({"x": x}),
        {"do": "weights", "trainable": True},
        {"do": "weight_infos"},
    )
    assert array(found["y"]).tolist() == [-1, 5]
    assert array(weights["w"]).tolist() == w.tolist()
    assert infos == [{"name": "w", "kind": "trainable", "dtype": "f32", "shape": [2, 1]}]


def test_a_session_says_what_a_model_holds() -> None:
    entries, inputs, outputs, metadata, planned = one(
        model_file.write(linear_model()),
        {"do": "entries"},
        {"do": "inputs", "entry": "train"},
        {"do": "outputs"},
        {"do": "metadata"},
        {"do": "planned_bytes"},
    )
    assert entries == ["infer", "train"]
    assert inputs == [
        {"name": "x", "dtype": "f32", "shape": ["batch", 2]},
        {"name": "target", "dtype": "f32", "shape": ["batch"]},
        {"name": "lr", "dtype": "f32", "shape": []},
    ]
    assert outputs == [{"name": "y", "dtype": "f32", "shape": ["batch"]}]
    assert metadata == {"licence": "CC0"}
    assert planned > 0


def test_every_type_goes_in_and_comes_out() -> None:
    graph = every_dtype()
    rng = np.random.default_rng(0)
    given = {
        v.name: rng.integers(0, 2, (2, 3)).astype(v.dtype.numpy) for v in graph.inputs if v.name
    }
    (found,) = one(model_file.write(Model({"infer": graph})), run(given))
    for name, x in given.items():
        got = array(found[f"{name} out"], x.dtype)
        assert got.tobytes() == x.tobytes()
        assert got.shape == (3, 2)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"rows": [0, 4]}, ": an index or a label is out of range"),
        ({"rows": [0.5]}, "input rows: 0.5 does not fit i32"),
        ({"rows": [2**31]}, "input rows: 2147483648 does not fit i32"),
        ({"rows": [[0]]}, "input rows: a list of more than numbers; want a flat list, or a Tensor"),
        ({"rows": "0"}, "input rows: String, want Int32Array"),
        ({"rows": np.float32([0])}, "input rows: Float32Array, want Int32Array"),
        ({"rows": np.int32([[0]])}, "input rows: shape [1,1], want [batch]"),
        ({}, "input rows is missing; want rows"),
        ({"rows": [0], "columns": [0]}, "input columns: no such input; want rows"),
    ],
)
def test_a_bad_input_is_refused_in_one_line(inputs: dict[str, Any], message: str) -> None:
    refused, good = one(
        model_file.write(Model({"infer": indices()})), run(inputs), run({"rows": [3, 0]})
    )
    assert isinstance(refused, JobError)
    assert str(refused).endswith(message)
    assert array(good["found"]).tolist() == [[9, 10, 11], [0, 1, 2]]  # the session goes on


def test_what_does_not_exist_is_refused_in_one_line() -> None:
    *refused, weights = one(
        model_file.write(linear_model()),
        run({"x": [1, 2]}, "explain"),
        {"do": "set", "weights": {"w": [1, 2], "v": [1]}},
        {"do": "set", "weights": {"w": [1, 2, 3]}},
        {"do": "weights"},
    )
    assert [str(r) for r in refused] == [
        "entry explain: the model has infer, train",
        "weight v: the model has no weight of this name",
        "weight w: 3 elements, want a shape of [2,1]",
    ]
    assert array(weights["w"]).ravel().tolist() == [0, 0]


def test_options_reach_the_runtime() -> None:
    file, step = model_file.write(two_weights()), run({"x": 1e30, "lr": 1}, "train")
    (finite,), (limited,), unknown = (
        results[1:] if results[0] is None else results[0]
        for results in in_node(
            Job(file, [step], {"checkFinite": True}),
            Job(file, [step], {"mostSteps": 1}),
            Job(file, [step], {"backend": "avx2"}),
        )
    )
    assert (finite.status, limited.status, unknown.status) == (
        "not_finite",
        "cancelled",
        "bad_argument",
    )
    assert str(unknown).startswith("backend avx2: want ")


def test_names_that_mean_something_to_javascript_mean_nothing() -> None:
    x = Value((1,), name="constructor")
    w = Weight(np.float32([2]), name="__proto__")
    model = Model({"toString": Graph((x,), (x * w,), ("__proto__",))}, {"__proto__": "text"})
    missing, found, weights, metadata = one(
        model_file.write(model),
        run({}),
        run({"constructor": [3]}, "toString"),
        {"do": "weights"},
        {"do": "metadata"},
    )
    assert str(missing) == "input constructor is missing; want constructor"
    assert array(found["__proto__"]).tolist() == [6]
    assert array(weights["__proto__"]).tolist() == [2]
    assert metadata == {"__proto__": "text"}


def test_the_module_is_found_beside_the_script(tmp_path: Path) -> None:
    for file in (*LITE_JS.parent.glob("*.js"), wasm_build("lite_wasm") / "bin/lite.wasm"):
        shutil.copy(file, tmp_path)
    (tmp_path / "model.ms").write_bytes(model_file.write(linear_model()))
    (tmp_path / "use.mjs").write_text(
        "import { readFile } from 'node:fs/promises';"
        "import { Session } from './lite.js';"
        "const session = await Session.load(await readFile('model.ms'));"
        "console.log(session.entries.join());"
    )
    done = subprocess.run(["node", "use.mjs"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("infer,train\n", "")


def test_a_batch_of_many_single_numbers_runs_at_once() -> None:
    size = 2**20  # times the bytes of an example that is worth a run of its own: 0 in 32 bits
    x = Value((size, 1, 1, 1), name="x")
    file = model_file.write(Model({"infer": Graph((x,), (OPS["neg"](OPS["abs"](x)),), ("y",))}))
    numbers = np.random.default_rng(0).standard_normal((size, 1, 1, 1)).astype(np.float32)
    (found,) = one(file, run({"x": numbers}))
    assert np.array_equal(array(found["y"]), -np.abs(numbers))


def test_control_flow_runs() -> None:
    models = [model_file.write(m) for m in control_models()]
    jobs = []
    for file in models:
        jobs.append(Job(file, [run(mutations.ones(lite.load(file), "infer"))]))
    for file, (opened, found) in zip(models, in_node(*jobs), strict=True):
        assert opened is None
        session = lite.load(file, backend="ref")
        want = session.run(mutations.ones(session, "infer"))
        for name, y in want.items():
            np.testing.assert_allclose(array(found[name], y.dtype), y, rtol=1e-5)


def test_hostile_files_meet_the_same_end_as_natively() -> None:
    files = mutations.originals()
    mutated = []
    for number in range(400):
        rng = np.random.default_rng([7, number])
        file = files[rng.integers(len(files))]
        plain = number < 100
        mutation = mutations.PLAIN[rng.integers(len(mutations.PLAIN))] if plain else mutations.forge
        mutated.append(mutation(file, rng, files))
    jobs, want = [], []
    for file in mutated:
        steps, ends = [], []
        try:
            session = lite.load(file, backend="ref", **mutations.LIMITS)
        except lite.LiteError as error:
            want.append([str(error)])
            jobs.append(Job(file, options=LIMITS))
            continue
        for entry in session.entries:
            inputs = mutations.ones(session, entry)
            steps.append(run(inputs, entry))
            ends.append(ending(lambda s=session, i=inputs, e=entry: s.run(i, e)))
        want.append([None, *ends])
        jobs.append(Job(file, steps, LIMITS))
    found = [[message(result) for result in results] for results in in_node(*jobs)]
    for number, (ends, native) in enumerate(zip(found, want, strict=True)):
        for end, its in zip(ends, native, strict=True):
            too_large = end is not None and its is not None and end.endswith(TOO_LARGE)
            assert end == its or too_large, f"mutation {number}"
    assert sum(ends[0] is None for ends in want) > 10


@pytest.mark.parametrize("dtype", [DType.f32, DType.f64])
def test_a_tensor_that_32_bits_cannot_address_is_refused(dtype: DType) -> None:
    size = 2**32 // dtype.size_bytes + 1  # its bytes, in 32 bits, are those of one element
    x = Value((size,), dtype, name="x")
    file = model_file.write(Model({"infer": Graph((x,), (OPS["reshape"](x, shape=(1, size)),))}))
    (found,) = one(file, run({"x": np.zeros(1, dtype.numpy)}))
    assert found.status == "out_of_memory"
    assert str(found) == f"entry infer, value 0 of shape [{size}]: {TOO_LARGE}"


def message(result: Any) -> str | None:
    return str(result) if isinstance(result, JobError) else None


def ending(f: Any) -> str | None:
    try:
        f()
    except lite.LiteError as error:
        return str(error)
    return None


def test_the_types_of_lite_js_know_the_array_of_each_type_of_elements() -> None:
    web = LITE_JS.parent
    named = set(re.findall(r": (\w+Array)\b", (web / "tensor.js").read_text()))
    union = re.search(r"type TypedArray =([^;]+);", (web / "lite.d.ts").read_text())
    assert union is not None
    assert set(re.findall(r"\w+", union[1])) == named
