"""lite.wasm in Node beside the native runtime and ONNX Runtime Web: python -m bench.wasm

After `npm install onnxruntime-web` in some folder, `--peer FOLDER` adds ONNX Runtime Web. All are
kept to one thread and take turns; where a ratio is above 1, lite.wasm is faster.
"""

from __future__ import annotations

import argparse
import base64
import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import lite_runtime as lite
from bench import infer
from bench.__main__ import table
from bench.timing import FULL, QUICK, Contender, Row, Turns, rows, take_turns, timed
from cloud import models
from cloud.nn.loss import softmax_cross_entropy
from cloud.train.graphs import training_model
from cloud.train.optim import Momentum
from examples.web.site import wasm_module
from ir import model_file
from ir.graph import Array

ROOT = Path(__file__).resolve().parents[1]
NATIVE = ("ref", "avx2", "auto")  # instruction sets of the native runtime
CASES = ("lenet", "dscnn 64", "mobilenet_v2 0.5 96", "resnet18 16 64")
TRAINED = {"lenet": (models.lenet, (28, 28, 1)), "resnet8": (models.resnet8, (32, 32, 3))}
BATCH = 32


class Node:
    """A process of Node that holds models open and times runs of them."""

    def __init__(self, module: Path, peer: Path | None) -> None:
        lite_js = ROOT / "lite_runtime/web/lite.js"
        command = ["node", str(Path(__file__).with_suffix(".mjs")), str(lite_js), str(module)]
        if peer is not None:
            command.append(str(peer / "node_modules/onnxruntime-web/dist/ort.node.min.mjs"))
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def open(
        self, who: str, model: Path, inputs: Mapping[str, Array], entry: str | None = None
    ) -> tuple[Contender, Array]:
        """What runs a model that many times, and the first elements of its first result."""
        name = f"{who} {model} {entry}"
        told = {
            key: {
                "dtype": x.dtype.name,
                "shape": x.shape,
                "base64": base64.b64encode(x.tobytes()).decode(),
            }
            for key, x in inputs.items()
        }
        job = {"name": name, "who": who, "model": str(model), "inputs": told}
        result = self._ask(job if entry is None else job | {"entry": entry})
        return lambda calls: float(self._ask({"name": name, "calls": calls})), np.float32(result)

    def close(self) -> None:
        self._process.communicate()

    def _ask(self, job: Mapping[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"bench: node ended while it was asked to {list(job)}")
        return json.loads(line)


def inference(node: Node, turns: Turns, name: str, peer: bool) -> Iterator[Row]:
    """Rows of one net, float32 and int8."""
    with tempfile.TemporaryDirectory() as folder:
        made = infer.Prepared(name, infer.CASES[name], Path(folder))
        feed = {"x": made.x}
        for precision, file in made.ours.items():
            run, result = node.open("auto", file, feed)
            plain, _ = node.open("ref", file, feed)
            contenders = {"lite.wasm": run, "lite.wasm, reference": plain}
            for isa in NATIVE:
                session = lite.load(file, threads=1, backend=isa)
                contenders[f"native {isa}"] = timed(partial(session.run, made.x))
            if peer:
                theirs = made.theirs[precision]
                contenders["onnxruntime-web"], _ = node.open("onnxruntime-web", theirs, feed)
            want = lite.load(file, backend="ref").run(made.x).ravel()[:1000]
            note = f"off by {np.abs(result - want).max() / np.abs(want).max():.0e}"
            case = f"{name} {precision}"
            yield from rows("inference", case, 1, take_turns(contenders, turns), note)


def training(node: Node, turns: Turns, name: str) -> Iterator[Row]:
    """Rows of one net's training step on 32 examples."""
    make, shape = TRAINED[name]
    rng = np.random.default_rng(0)
    net = make(10, rng=rng)
    model = training_model(net, softmax_cross_entropy, Momentum(0.01), {"x": ("batch", *shape)})
    x = rng.standard_normal((BATCH, *shape)).astype(np.float32)
    label = rng.integers(0, 10, BATCH).astype(np.int32)
    batch = {"x": x, "label": label, "lr": np.float32(0.01)}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "train.ms"
        file.write_bytes(model_file.write(model))
        run, loss = node.open("auto", file, batch, "train")
        contenders = {"lite.wasm": run}
        for isa in NATIVE:
            session = lite.load(file, threads=1, backend=isa)
            contenders[f"native {isa}"] = timed(partial(session.run, batch, "train"))
        want = lite.load(file, backend="ref").run(batch, "train")["loss"]
        note = f"first loss off by {abs(float(loss[0]) / want - 1):.0e}"
        yield from rows("training", name, 1, take_turns(contenders, turns), note)


def main(arguments: list[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    turns = QUICK if options.quick else FULL
    node = Node(options.module or wasm_module(), options.peer)
    found: list[Row] = []
    work: list[Callable[[], Iterator[Row]]] = [
        partial(inference, node, turns, name, options.peer is not None) for name in options.cases
    ]
    work += [partial(training, node, turns, name) for name in options.trained]
    for part in work:
        for row in part():
            found.append(row)
            print(f"{row.part}: {row.case}, {row.peer}: {row.ratio:.2f}", flush=True)
    node.close()
    print(table(found))


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="python -m bench.wasm", description=__doc__.splitlines()[0])
    p.add_argument("--quick", action="store_true", help="fewer rounds")
    p.add_argument("--module", type=Path, help="lite.wasm; default: it is built")
    p.add_argument("--peer", type=Path, help="the folder where onnxruntime-web is installed")
    p.add_argument("--cases", nargs="*", choices=list(infer.CASES), default=list(CASES))
    p.add_argument("--trained", nargs="*", choices=list(TRAINED), default=list(TRAINED))
    return p


if __name__ == "__main__":
    main()
