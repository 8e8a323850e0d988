"""If, Loop and Scan of ONNX on our own branches and loops, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import lite_runtime as lite
from converter import ConvertError, convert
from tests.converter.onnx_graphs import inner
from tests.converter.test_found_sizes import Nodes, agrees, i64, made, narrow


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_branches_read_what_lies_outside_of_them(tmp_path: Path) -> None:
    then = inner([("Mul", ["x", "two"], ["t"], {})], {}, ["t"], {"two": np.float32(2)})
    other = inner([("Add", ["x", "z"], ["e"], {})], {}, ["e"])
    nodes: Nodes = [
        ("Neg", ["x"], ["z"], {}),
        ("If", ["c"], ["y"], {"then_branch": then, "else_branch": other}),
    ]
    model = made(nodes, {"x": ("f", [2, 3]), "c": ("b", [])}, ["y"])
    feeds = [{"x": floats(2, 3), "c": np.array(c)} for c in (True, False)]
    agrees(model, tmp_path / "m.ms", *feeds)


def test_branches_may_give_results_of_different_sizes(tmp_path: Path) -> None:
    then = inner([("Slice", ["x", "s", "e"], ["t"], {})], {}, ["t"], {"s": i64(0), "e": i64(1)})
    other = inner([("Compress", ["x", "m"], ["e"], {"axis": 0})], {}, ["e"])
    nodes: Nodes = [
        ("If", ["c"], ["b"], {"then_branch": then, "else_branch": other}),
        ("Tanh", ["b"], ["y"], {}),
    ]
    model = made(nodes, {"x": ("f", [4, 3]), "c": ("b", []), "m": ("b", [4])}, ["y"])
    feeds = [
        {"x": floats(4, 3), "c": np.array(c), "m": np.array(m)}
        for c, m in [(True, [1, 1, 1, 0]), (False, [1, 1, 1, 0]), (False, [0, 0, 0, 0])]
    ]
    for feed in feeds:
        feed["m"] = feed["m"].astype(bool)
    agrees(model, tmp_path / "m.ms", *feeds)


def test_a_condition_that_is_known_leaves_one_branch(tmp_path: Path) -> None:
    branch = inner([("Relu", ["x"], ["t"], {})], {}, ["t"])
    other = inner([("Flatten", ["x"], ["e"], {})], {}, ["e"])
    nodes: Nodes = [("If", ["c"], ["y"], {"then_branch": branch, "else_branch": other})]
    model = made(nodes, {"x": ("f", [2, 3])}, ["y"], {"c": np.array([True])})
    report = convert(model.SerializeToString(), tmp_path / "m.ms")
    assert dict(report.nodes) == {"relu": 1}


def test_branches_of_different_ranks_are_refused_in_one_line(tmp_path: Path) -> None:
    then = inner([("Identity", ["x"], ["t"], {})], {}, ["t"])
    other = inner([("Flatten", ["x"], ["e"], {})], {}, ["e"])
    nodes: Nodes = [("If", ["c"], ["y"], {"then_branch": then, "else_branch": other})]
    model = made(nodes, {"x": ("f", [2, 3, 2]), "c": ("b", [])}, ["y"])
    with pytest.raises(ConvertError, match=r"node 0 If .* f32\[2,3,2\] or f32\[2,6\]; want"):
        convert(model.SerializeToString(), tmp_path / "m.ms")


def test_a_squeeze_of_an_axis_of_one_place_hangs_on_its_size(tmp_path: Path) -> None:
    squeezed = inner([("Squeeze", ["x", "one"], ["t"], {})], {}, ["t"], {"one": i64(1)})
    same = inner([("Identity", ["x"], ["e"], {})], {}, ["e"])
    nodes: Nodes = [
        ("Shape", ["x"], ["s"], {}),
        ("Gather", ["s", "at"], ["n"], {"axis": 0}),
        ("Equal", ["n", "unit"], ["c"], {}),
        ("If", ["c"], ["y"], {"then_branch": squeezed, "else_branch": same}),
    ]
    arrays = {"at": np.array(1), "unit": np.array(1)}
    source = made(nodes, {"x": ("f", [2, "n", 3])}, ["y"], arrays).SerializeToString()
    for n, shape in ((1, (2, 3)), ("n", (2, 4, 3))):
        convert(source, tmp_path / "m.ms", shapes={"x": (2, n, 3)})
        x = floats(2, n if isinstance(n, int) else 4, 3)
        assert lite.load(tmp_path / "m.ms").run(x).shape == shape


def halving(scans: bool = True) -> onnx.GraphProto:
    """x = x / 2 + bias, for as long as its largest number is above a bound; collects x and i."""
    nodes: Nodes = [
        ("Mul", ["v", "half"], ["h"], {}),
        ("Add", ["h", "bias"], ["w"], {}),
        ("ReduceMax", ["w"], ["m"], {"keepdims": 0}),
        ("Greater", ["m", "bound"], ["again"], {}),
        ("Identity", ["i"], ["j"], {}),
        ("Identity", ["w"], ["k"], {}),
    ]
    outputs = ["again", "w", "k", "j"] if scans else ["again", "w"]
    return inner(nodes, {"i": "i", "c": "b", "v": "f"}, outputs, {"half": np.float32(0.5)})


LOOP_INPUTS: dict[str, tuple[str, list[object]]] = {
    "x": ("f", [2, 3]), "bias": ("f", [3]), "bound": ("f", []),
}  # fmt: skip


def loop_feed(bound: float, **more: np.ndarray) -> dict[str, np.ndarray]:
    x = np.abs(floats(2, 3)) + 4
    return {"x": x, "bias": np.zeros(3, np.float32), "bound": np.array(bound, np.float32), **more}


@pytest.mark.parametrize("limit", ["constant", "large", "none", "input", "endless"])
@pytest.mark.parametrize("starts", ["", "c0"])
def test_a_loop_stops_where_its_body_says_and_collects(
    tmp_path: Path, limit: str, starts: str
) -> None:
    bounds = {"constant": i64(3)[0], "large": i64(10**8)[0], "endless": i64(2**63 - 1)[0]}
    arrays = {"n": np.array(bounds[limit])} if limit in bounds else {}
    inputs = LOOP_INPUTS | ({"n": ("i", [])} if limit == "input" else {})
    inputs |= {"c0": ("b", [])} if starts else {}
    nodes: Nodes = [
        ("Loop", ["" if limit == "none" else "n", starts, "x"], ["y", "ys", "is"],
         {"body": halving()}),
        ("Neg", ["ys"], ["z"], {}),
    ]  # fmt: skip
    model = made(nodes, inputs, ["y", "z", "is"], arrays)
    more = {"n": np.array(2, np.int64)} if limit == "input" else {}
    feeds = [loop_feed(b, **more) for b in (1.0, 0.2, 100.0)]
    if starts:
        feeds = [f | {"c0": np.array(True)} for f in feeds]
    session = agrees(model, tmp_path / "m.ms", *feeds)
    if starts:  # no turn: there are no rows, but it is known what they would have been
        feed = {k: narrow(v) for k, v in feeds[0].items()}
        none = session.run(feed | {"c0": np.array(False)})
        np.testing.assert_array_equal(none["y"], feeds[0]["x"])
        assert (none["z"].shape, none["is"].shape) == ((0, 2, 3), (0,))


def test_a_counted_loop_collects_as_many_rows_as_its_bound_says(tmp_path: Path) -> None:
    body = inner(
        [("Add", ["v", "x"], ["w"], {}), ("ReduceSum", ["w"], ["s"], {"keepdims": 0}),
         ("Identity", ["c"], ["d"], {})],
        {"i": "i", "c": "b", "v": "f"}, ["d", "w", "s"],
    )  # fmt: skip
    nodes: Nodes = [("Loop", ["n", "", "x"], ["y", "sums"], {"body": body})]
    model = made(nodes, {"x": ("f", [2, 3]), "n": ("i", [])}, ["y", "sums"])
    feeds = [{"x": floats(2, 3), "n": np.array(n, np.int64)} for n in (4, 1, 0, 7)]
    agrees(model, tmp_path / "m.ms", *feeds)


@pytest.mark.parametrize("ends", ["no turns", "false", "a bound"])
@pytest.mark.parametrize("sizes", [[2, 3], ["rows", "columns"]])
def test_a_loop_of_no_turns_collects_nothing(
    ends: str, sizes: list[object], tmp_path: Path
) -> None:
    info = onnx.helper.make_tensor_value_info
    body = inner(
        [("Add", ["v", "v"], ["w"], {}), ("ReduceMax", ["w"], ["m"], {"keepdims": 0}),
         ("Less", ["m", "bound"], ["again"], {}), ("Identity", ["w"], ["k"], {})],
        {"i": "i", "c": "b", "v": "f"}, ["again", "w", "k"],
    )  # fmt: skip
    body.output[2].CopyFrom(info("k", TensorProto.FLOAT, sizes))
    inputs = {"x": ("f", sizes), "bound": ("f", list[object]())}
    arrays: dict[str, np.ndarray] = {"n": np.array(3 * (ends == "false"))}
    if ends == "a bound":
        inputs["n"] = ("i", [])
        arrays = {}
    if ends == "false":
        arrays["never"] = np.array(False)
    condition = "never" if ends == "false" else ""
    nodes: Nodes = [("Loop", ["n", condition, "x"], ["y", "ys"], {"body": body})]
    source = made(nodes, inputs, ["y", "ys"], arrays).SerializeToString()
    x, bound = floats(2, 3), np.array(9, np.float32)
    feed = {"x": x, "bound": bound} | ({"n": np.array(0)} if ends == "a bound" else {})
    data = {name: a[None] for name, a in feed.items()}
    assert convert(source, tmp_path / "m.ms", check_data=data).reference == "ONNX Runtime"
    got = lite.load(tmp_path / "m.ms").run(feed, entry="infer")
    np.testing.assert_array_equal(got["y"], x)
    assert got["ys"].shape[0] == 0
    assert got["ys"].ndim == 3


def test_state_may_grow_from_turn_to_turn(tmp_path: Path) -> None:
    body = inner(
        [("Concat", ["v", "row"], ["w"], {"axis": 0}), ("Identity", ["c"], ["d"], {})],
        {"i": "i", "c": "b", "v": "f"}, ["d", "w"],
    )  # fmt: skip
    nodes: Nodes = [
        ("Loop", ["n", "", "x"], ["y"], {"body": body}),
        ("ReduceSum", ["y", "axis"], ["z"], {"keepdims": 0}),
    ]
    inputs = {"x": ("f", [1, 3]), "row": ("f", [2, 3]), "n": ("i", [])}
    model = made(nodes, inputs, ["y", "z"], {"axis": i64(0)})  # type: ignore[arg-type]
    feeds = [
        {"x": floats(1, 3), "row": floats(2, 3, seed=1), "n": np.array(n, np.int64)}
        for n in (3, 0, 5)
    ]
    agrees(model, tmp_path / "m.ms", *feeds)


def test_a_loop_in_a_branch_in_a_loop(tmp_path: Path) -> None:
    then = inner(
        [("Loop", ["three", "", "v"], ["t"], {"body": halving(scans=False)})],
        {}, ["t"], {"three": i64(3)[0]},
    )  # fmt: skip
    other = inner([("Add", ["v", "bias"], ["e"], {})], {}, ["e"])
    body = inner(
        [("Mod", ["i", "two"], ["odd"], {}), ("Cast", ["odd"], ["p"], {"to": TensorProto.BOOL}),
         ("If", ["p"], ["w"], {"then_branch": then, "else_branch": other}),
         ("Identity", ["c"], ["d"], {})],
        {"i": "i", "c": "b", "v": "f"}, ["d", "w"], {"two": i64(2)[0]},
    )  # fmt: skip
    nodes: Nodes = [("Loop", ["n", "", "x"], ["y"], {"body": body})]
    model = made(nodes, LOOP_INPUTS | {"n": ("i", [])}, ["y"])
    feeds = [loop_feed(1.0, n=np.array(n, np.int64)) for n in (4, 1)]
    agrees(model, tmp_path / "m.ms", *feeds)


def scan_model(attrs: dict[str, object], turns: object = 5) -> onnx.ModelProto:
    """s = s + x w; gives s and s x, for rows of x and z."""
    body = inner(
        [("Mul", ["a", "w"], ["m"], {}), ("Add", ["s", "m"], ["t"], {}),
         ("Mul", ["t", "b"], ["o"], {}), ("Identity", ["t"], ["p"], {})],
        {"s": "f", "a": "f", "b": "f"}, ["t", "o", "p"],
    )  # fmt: skip
    nodes: Nodes = [
        ("Scan", ["s0", "x", "z"], ["s", "os", "ps"], {"body": body, "num_scan_inputs": 2, **attrs})
    ]
    axes = attrs.get("scan_input_axes", [0, 0])
    shapes = [[turns, 3] if a == 0 else [3, turns] for a in axes]  # type: ignore[attr-defined]
    inputs = {"s0": ("f", [3]), "x": ("f", shapes[0]), "z": ("f", shapes[1]), "w": ("f", [3])}
    return made(nodes, inputs, ["s", "os", "ps"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "attrs",
    [
        {},
        {"scan_input_directions": [1, 0], "scan_output_directions": [0, 1]},
        {"scan_input_axes": [1, 0], "scan_output_axes": [1, 0]},
        {"scan_input_axes": [-1, 0], "scan_input_directions": [1, 1], "scan_output_axes": [-1, 0]},
    ],
)
def test_scan_in_all_directions_along_all_axes(tmp_path: Path, attrs: dict[str, object]) -> None:
    axes = attrs.get("scan_input_axes", [0, 0])
    x, z = (floats(5, 3, seed=i) if a == 0 else floats(3, 5, seed=i) for i, a in enumerate(axes))  # type: ignore[arg-type, var-annotated]
    feed = {"s0": floats(3, seed=7), "x": x, "z": z, "w": floats(3, seed=8)}
    agrees(scan_model(attrs), tmp_path / "m.ms", feed)


def test_scan_over_a_free_length(tmp_path: Path) -> None:
    path = tmp_path / "m.ms"
    feeds = [
        {"s0": floats(3), "x": floats(n, 3), "z": floats(n, 3, seed=1), "w": floats(3, seed=2)}
        for n in (4, 9)
    ]
    for feed in feeds:
        agrees(scan_model({}, "n"), path, feed)
