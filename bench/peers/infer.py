"""Inference beside the peers: runs their harness with ours among them, see README.md.

    python bench/peers/infer.py HARNESS convert            our files, of the peers' ONNX files
    python bench/peers/infer.py HARNESS check              all outputs against the reference
    python bench/peers/infer.py HARNESS latency [--tasks mnv2_fp32 …] [--threads 1 2] [--peers …]
    python bench/peers/infer.py HARNESS tables             the latest figures as Markdown

Every contender is a process of its own; all are alive and idle while one after the other takes its
turn. Figures are merged into results.json in INFER_HOME.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

OURS = "mindspan"
ADAPTER = Path(__file__).with_name("mindspan_infer_ad.py")
MODELS = ("mnv2", "mnv3s", "resnet18", "dscnn", "encoder", "lstm")
QUANTIZED = ("mnv2", "dscnn")
TASKS = (*(f"{m}_fp32" for m in MODELS), *(f"{m}_int8" for m in QUANTIZED))
# What converters of the peers make of the same file, and APIs over the same kernels: a peer's row
# is the best of its own.
PEERS = {
    "ONNX Runtime": ("onnxruntime", "onnxruntime-u8s8", "onnxruntime-u8u8"),
    "LiteRT": ("litert", "litert-compiled"),
    "OpenVINO": ("openvino",),
    "MNN": ("mnn", "mnn-module"),
    "ncnn": ("ncnn",),
    "ExecuTorch": ("executorch",),
    "MindSpore Lite": ("mindspore_lite",),
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("harness", type=Path, help="the folder with bench_infer.py and adapters.py")
    parser.add_argument("command", choices=("convert", "check", "latency", "tables"))
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--peers", nargs="+", help="by the harness's names; by default all")
    parser.add_argument("--rounds", type=int, default=6, help="quiet ones that are wanted")
    parser.add_argument("--seconds", type=float, default=0.4, help="of each turn")
    options = parser.parse_args(arguments)
    if "INFER_HOME" not in os.environ:
        parser.error("INFER_HOME is not set; want the folder with the peers' environments")
    home = Path(os.environ["INFER_HOME"])
    if options.command == "convert":
        for task in options.tasks:
            convert(home / "models", *task.rsplit("_", 1))
    elif options.command == "tables":
        print(tables(home, options.tasks))
    else:
        measure(options, joined(options.harness, home / "harness"))
    return 0


def convert(models: Path, model: str, precision: str) -> None:
    """Our file of a model, of the ONNX file and the calibration data that the peers have."""
    import numpy as np

    import converter

    folder = models / model
    how: dict[str, Any] = {"check": 1}
    if precision == "int8":
        # How weights at random survive int8 says nothing: `check` shows every contender's error.
        calibration = {"input": np.load(folder / "calib.npy")}
        how |= {"quantize": "int8", "calibration": calibration, "tol": 1.0}
    target = folder / f"{OURS}_{precision}.ms"
    print(converter.convert(folder / "model_opset17.onnx", target, **how), flush=True)


def joined(harness: Path, copy: Path) -> Path:
    """A copy of the harness that knows of us."""
    shutil.copytree(harness, copy, dirs_exist_ok=True)
    shutil.copy(ADAPTER, copy)
    with (copy / "adapters.py").open("a") as file:
        file.write("\nfrom mindspan_infer_ad import MindSpan  # noqa: E402\n")
        file.write("ADAPTERS.append(MindSpan)\nBY_NAME[MindSpan.name] = MindSpan\n")
    return copy


def measure(options: argparse.Namespace, harness: Path) -> None:
    """Runs the harness, which prints as it goes."""
    command = [sys.executable, str(harness / "bench_infer.py"), options.command]
    command += ["--tasks", ",".join(options.tasks), "--peers", ",".join(options.peers or [])]
    command += ["--threads", ",".join(map(str, options.threads))]
    command += ["--rounds", str(options.rounds), "--secs", str(options.seconds)]
    subprocess.run(command, check=True)


def tables(home: Path, tasks: Sequence[str]) -> str:
    """Milliseconds of the best burst, and the fastest peer's over ours; then of what the core can
    do, the share that the multiply-adds of a model reach."""
    found = json.loads((home / "results.json").read_text())
    models = json.loads((home / "models" / "models.json").read_text())
    rows = list(rows_of(found["latency"], tasks))
    names = [p for p in PEERS if any(p in row for _, _, _, row in rows)]
    lines = [["", "threads", "ours", *names, "fastest peer / ours", "share of peak"]]
    for task, threads, ours, row in rows:
        model, precision = task.rsplit("_", 1)
        limits = found.get("roofline", {}).get(str(threads), {})
        peak = limits.get("fp32_gflops" if precision == "fp32" else "int8_exact_gops")
        rate = 2e-6 * models[model]["macs"] / ours
        lines.append(
            [
                task,
                str(threads),
                f"{ours:.3g}",
                *(f"{row[n]:.3g}" if n in row else "–" for n in names),
                f"{min(row.values()) / ours:.2f}" if row else "–",
                f"{100 * rate / peak:.0f} %" if peak else "–",
            ]
        )
    return markdown(lines)


def rows_of(
    latency: dict[str, Any], tasks: Sequence[str]
) -> Iterator[tuple[str, int, float, dict[str, float]]]:
    """Task, threads, our milliseconds, and those of each peer's fastest form."""
    for task in tasks:
        for threads in (1, 2):
            found = latency.get(f"{task}/{threads}", {}).get("peers", {})
            if OURS not in found:
                continue
            row = {
                peer: min(found[n]["best_ms"] for n in forms if n in found)
                for peer, forms in PEERS.items()
                if any(n in found for n in forms)
            }
            yield task, threads, found[OURS]["best_ms"], row


def markdown(lines: Sequence[Sequence[str]]) -> str:
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([rows[0], "|---" * len(lines[0]) + "|", *rows[1:]])


if __name__ == "__main__":
    sys.exit(main())
