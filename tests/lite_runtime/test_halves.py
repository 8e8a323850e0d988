"""Layers whose weights are float16 in the file: on ARM they are packed so, and multiplied so where
a session asks for it. Models run under qemu."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from cloud.compress.weights import Scheme, compressed_weights
from converter import convert
from ir import model_file
from ir.graph import Graph, Model, Value, Weight
from ir.op import OPS
from tests.converter.real_inputs import needs_models, path_of, picture
from tests.helpers import ROOT
from tests.native import aarch64_build, run_tool

pytestmark = pytest.mark.timeout(900)  # with the build
OLD = "cortex-a72"  # without arithmetic of float16
NEW = "neoverse-n1"  # with it
ADDED = 2e-3  # what arithmetic of float16 adds, relative to the largest result


@dataclass(frozen=True)
class Ran:
    y: np.ndarray
    weight_bytes: int
    nodes: tuple[tuple[str, str, int], ...]  # operator, instruction set, how often it ran

    def sets(self, op: str) -> set[str]:
        """The instruction sets of an operator's kernels."""
        return {isa for name, isa, _ in self.nodes if name == op}

    def runs(self, op: str) -> int:
        return sum(n for name, _, n in self.nodes if name == op)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = aarch64_build("lite") / "lite_runtime/liblite.a"
    path = tmp_path_factory.mktemp("halves") / "run_model"
    run_tool(
        "aarch64-linux-gnu-gcc", "-std=c99", "-static", f"-I{ROOT / 'lite_runtime/include'}",
        "tests/lite_runtime/run_model.c", str(library), "-lm", "-pthread", "-o", str(path),
    )  # fmt: skip
    return path


def weight(name: str, *shape: int) -> Weight:
    data = np.random.default_rng(len(name)).normal(0, np.prod(shape[1:]) ** -0.5, shape)
    return Weight(data.astype(np.float32), name=name, trainable=False)


def small_net() -> Graph:
    """A first layer, one for Winograd, one of groups, a pointwise one with a sum, a linear one."""
    x = Value((2, 16, 16, 3), name="x")
    a = OPS["conv2d"](x, weight("first", 64, 3, 3, 3), pads=(1, 1, 1, 1))
    b = OPS["conv2d"](a, weight("winograd", 64, 3, 3, 64), pads=(1, 1, 1, 1))
    two = weight("of two groups", 64, 3, 3, 32)
    c = OPS["conv2d"](b, two, pads=(1, 1, 1, 1), strides=(2, 2), groups=2)
    d = OPS["conv2d_add"](c, c, weight("pointwise", 64, 1, 1, 64))
    return Graph((x,), (OPS["linear"](d, weight("line", 24, 64)),), ("y",))


def in_halves(graph: Graph) -> Graph:
    return compressed_weights(graph, Scheme(16)).graph


def run(
    program: Path,
    graph: Graph,
    where: Path,
    backend: str,
    cpu: str = OLD,
    threads: int = 1,
    x: np.ndarray | None = None,
) -> Ran:
    """The graph's first output on x, or on numbers at random."""
    model, given, y = (where / name for name in ("one.ms", "x.bin", "y.bin"))
    model_file.save(Model({"infer": graph}), model)
    if x is None:
        x = np.random.default_rng(7).normal(size=graph.inputs[0].shape).astype(np.float32)
    x.tofile(given)
    done = subprocess.run(
        ["qemu-aarch64", "-cpu", cpu, program, model, backend, str(threads), given, y],
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    first, *lines = done.stdout.splitlines()
    nodes = tuple((op, isa, int(n)) for op, isa, n in map(str.split, lines))
    return Ran(np.fromfile(y, np.float32), int(first), nodes)


def rounded(graph: Graph) -> Graph:
    """The same weights as floats: those that float16 has."""
    for w in graph.weights:
        w.data[...] = w.data.astype(np.float16)
    return graph


def test_layers_on_float16_give_the_bits_of_the_same_weights_in_float32(
    program: Path, tmp_path: Path
) -> None:
    want = run(program, rounded(small_net()), tmp_path, "auto")
    for cpu in (OLD, NEW):
        for threads in (1, 3):
            got = run(program, in_halves(small_net()), tmp_path, "auto", cpu, threads)
            assert np.array_equal(got.y, want.y)
            assert got.sets("conv2d") == got.sets("conv2d_add") == {"neon"}


def test_float16_is_packed_as_such_and_never_read_back(program: Path, tmp_path: Path) -> None:
    x = Value((1, 12, 12, 96), name="x")
    graph = Graph((x,), (OPS["conv2d"](x, weight("w", 96, 1, 1, 96)),), ("y",))
    floats = run(program, graph, tmp_path, "neon")
    halves = run(program, in_halves(graph), tmp_path, "neon")
    assert halves.runs("decompress") == 0
    assert halves.runs("conv2d") == 1
    assert 2 * halves.weight_bytes <= floats.weight_bytes + 200  # headers


def test_a_weight_that_others_read_too_is_read_back(program: Path, tmp_path: Path) -> None:
    x, w = Value((1, 8, 8, 32), name="x"), weight("w", 32, 1, 1, 32)
    y = OPS["conv2d"](x, w)
    both = Graph((x,), (y * OPS["reduce_sum"](w, axes=(0, 1, 2, 3)),), ("y",))
    want = run(program, rounded(both), tmp_path, "neon")
    got = run(program, in_halves(both), tmp_path, "neon")
    assert got.runs("decompress") == 1
    assert np.array_equal(got.y, want.y)


def test_one_weight_under_two_shapes_is_packed_for_each(program: Path, tmp_path: Path) -> None:
    """Nothing but the shape that the weight is read back in tells the two layers apart."""
    stored = Weight(weight("w", 64, 16).data.astype(np.float16), name="w", trainable=False)
    x = Value((1, 8, 8, 32), name="x")

    def layer(*shape: int) -> Value:
        return OPS["conv2d"](x, OPS["decompress"](stored, bits=16, shape=shape))

    parts = [OPS["reduce_sum"](layer(*s), axes=(3,)) for s in ((32, 1, 1, 32), (16, 1, 2, 32))]
    graph = Graph((x,), (parts[0],), ("y",)), Graph((x,), (parts[1],), ("y",))
    apart = [run(program, g, tmp_path, "neon").y for g in graph]
    together = [OPS["reshape"](p, shape=(n,)) for p, n in zip(parts, (64, 56), strict=True)]
    joined = Graph((x,), (OPS["concat"](*together, axis=0),), ("y",))
    assert np.array_equal(run(program, joined, tmp_path, "neon").y, np.concatenate(apart))


def test_arithmetic_of_float16_is_there_for_sessions_that_ask(
    program: Path, tmp_path: Path
) -> None:
    want = run(program, in_halves(small_net()), tmp_path, "auto", NEW)
    got = run(program, in_halves(small_net()), tmp_path, "fp16", NEW)
    assert got.sets("conv2d") == got.sets("conv2d_add") == got.sets("compressed_linear") == {"fp16"}
    error = np.abs(got.y - want.y).max() / np.abs(want.y).max()
    assert 0 < error <= ADDED
    again = run(program, in_halves(small_net()), tmp_path, "fp16", NEW, threads=3)
    assert np.array_equal(again.y, got.y)


@needs_models
@pytest.mark.parametrize(
    ("name", "rms"),
    [("mp_hand_landmark_lite", 2e-3), ("mp_face_detection_short_range", 2e-3),
     ("mp_selfie_segmentation_landscape", 4e-3)],
)  # fmt: skip
def test_real_models_that_come_in_float16_stay_near_in_its_arithmetic(
    name: str, rms: float, program: Path, tmp_path: Path
) -> None:
    convert(path_of(f"tflite/{name}.tflite"), tmp_path / "model.ms")
    graph = model_file.read((tmp_path / "model.ms").read_bytes()).entries["infer"]
    _, height, width, _ = graph.inputs[0].shape
    x = np.asarray(picture("astronaut.png").resize((width, height)), np.float32) / 255
    exact, near = (run(program, graph, tmp_path, b, NEW, x=x) for b in ("auto", "fp16"))
    assert exact.sets("conv2d_add") == {"neon"}
    assert near.sets("conv2d_add") == {"fp16"}
    depthwise = near.runs("depthwise_conv2d")
    assert exact.runs("decompress") <= depthwise < exact.runs("conv2d") + exact.runs("conv2d_add")
    error = near.y - exact.y
    found = float(np.sqrt(np.mean(error**2) / np.mean(exact.y**2)))
    print(f"{name}: {np.abs(error).max() / np.abs(exact.y).max():.4f}, rms {found:.4f}")
    assert 0 < found <= rms


def test_weights_in_float32_stay_exact_in_such_a_session(program: Path, tmp_path: Path) -> None:
    want = run(program, small_net(), tmp_path, "neon", NEW)
    got = run(program, small_net(), tmp_path, "fp16", NEW)
    assert np.array_equal(got.y, want.y)


def test_a_processor_without_it_says_so(program: Path, tmp_path: Path) -> None:
    model_file.save(Model({"infer": small_net()}), tmp_path / "model.ms")
    done = subprocess.run(
        ["qemu-aarch64", "-cpu", OLD, program, tmp_path / "model.ms", "fp16", "1", "x", "y"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "run_model: backend fp16: want auto, ref, neon\n"
