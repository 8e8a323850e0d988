"""Runs as traces: of Chrome's format by `ms-bench --trace`, and by probes for other programs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ir import model_file
from ir.graph import Model
from lite_runtime import cli
from lite_runtime.trace import chrome_trace
from tests.lite_runtime.control_models import newton
from tests.lite_runtime.models import cnn_batch, linear_model, open_model, small_cnn
from tests.native import native_build, run_tool

PROBES = {"load", "plan", "op_begin", "op_end"}


def spans(text: str, kind: str) -> list[dict]:
    rows = json.loads(text)["traceEvents"]
    assert all(row["ph"] == "X" and row["dur"] >= 0 and row["ts"] >= 0 for row in rows)
    return [row for row in rows if row["cat"] == kind]


def inside(inner: dict, outer: dict) -> bool:
    end = outer["ts"] + outer["dur"]
    return outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= end + 1e-6


def test_a_trace_has_every_node_of_every_run_in_order() -> None:
    session = open_model(small_cnn())
    text = chrome_trace(session, cnn_batch(4), "train", runs=3)
    runs, nodes = spans(text, "run"), spans(text, "node")
    ran = [n for n in session.nodes("train") if n.op != "reshape"]  # a view takes no time
    assert len(runs) == 3
    assert [n["name"] for n in nodes] == 3 * [n.op for n in ran]
    assert nodes[0]["args"]["source"].startswith("models.py:")
    each = len(ran)
    for i, node in enumerate(nodes):
        assert inside(node, runs[i // each])
        if i % each:
            assert node["ts"] >= nodes[i - 1]["ts"] + nodes[i - 1]["dur"]


def test_nodes_of_a_loop_lie_inside_of_its_own() -> None:
    text = chrome_trace(open_model(Model({"infer": newton()})), {"a": np.float32(2)}, runs=1)
    nodes = spans(text, "node")
    (loop,) = [n for n in nodes if n["name"] == "while_loop"]
    turns = [n for n in nodes if n["args"]["graph"].startswith("body")]
    assert len(turns) >= 3 * 4
    assert all(inside(n, loop) for n in turns)


def test_a_trace_that_is_full_says_what_it_left_out() -> None:
    session = open_model(small_cnn())
    session.trace(5)
    session.run(cnn_batch(4), "train")
    events, lost = session.trace(0)
    assert len(events) == 5
    assert lost > 5
    session.run(cnn_batch(4), "train")
    assert session.trace(0) == ([], 0)


def test_bench_writes_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model_file.save(small_cnn(), tmp_path / "model.ms")
    cli.bench([str(tmp_path / "model.ms"), "--runs", "2", "--trace", str(tmp_path / "out.json")])
    assert capsys.readouterr().out.startswith("entry infer, 2 runs")
    assert len(spans((tmp_path / "out.json").read_text(), "run")) == 10


@pytest.fixture(scope="module")
def library() -> Path:
    return native_build("lite_shared") / "lite_runtime/liblite.so"


def test_the_library_tells_where_its_probes_are(library: Path) -> None:
    if not shutil.which("readelf"):
        pytest.skip("readelf is missing: apt-get install binutils")
    notes = subprocess.run(["readelf", "-n", library], capture_output=True, text=True, check=True)
    found = re.findall(r"Provider: (\w+)\s+Name: (\w+)", notes.stdout)
    assert {name for provider, name in found if provider == "lite"} == PROBES


def test_a_tracer_counts_the_kernels_of_a_program(tmp_path: Path) -> None:
    if not shutil.which("bpftrace"):
        pytest.skip("bpftrace is missing: apt-get install bpftrace")
    consumer = Path(__file__).parent / "consumer/train.c"
    library = native_build("lite") / "lite_runtime/liblite.a"
    include = Path(__file__).parents[2] / "lite_runtime/include"
    program = str(tmp_path / "train")
    run_tool("cc", f"-I{include}", str(consumer), str(library), "-lm", "-pthread", "-o", program)
    model_file.save(linear_model(), tmp_path / "line.ms")
    script = f"usdt:{program}:lite:op_begin {{ @[str(arg0)] = count(); }}"
    command = f"{program} {tmp_path}/line.ms {tmp_path}/saved.ms"
    done = subprocess.run(
        ["bpftrace", "-e", script, "-c", command], capture_output=True, text=True, timeout=120
    )
    counts = dict(re.findall(r"@\[(\w+)\]: (\d+)", done.stdout))
    if not counts:
        words = (done.stderr or done.stdout).strip().splitlines()
        pytest.skip(f"eBPF is refused here: {words[-1] if words else 'no word why'}")
    assert int(counts["sgd_step"]) == 200
