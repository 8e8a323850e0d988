"""Builds the page's folder: a base that is trained here, the runtime as WebAssembly, the page."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import lite_runtime as lite
from cloud import nn, train
from converter import TrainSpec, convert
from examples.web.digits import SIDE, Digits
from ir.files import write_whole
from ir.graph import Model

ROOT = Path(__file__).resolve().parents[2]
PAGE = Path(__file__).parent / "page"
RUNTIME = ROOT / "lite_runtime/web"
EXAMPLES = 10  # of each digit, that the page shows and rehearses
PACKAGES = "clang-19 lld-19 wasi-libc libc++-19-dev-wasm32 libclang-rt-19-dev-wasm32"


class SiteError(Exception):
    """The page cannot be built; the message is one line."""


def build(
    folder: Path, known: Digits, unseen: Digits, wasm: Path, say: Callable[[str], None]
) -> float:
    """Writes everything that the page needs into `folder`; the base's accuracy on `unseen`

    `wasm`: lite.wasm. Raises ConvertError or OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    make_base(folder / "digits.ms", known)
    session = lite.load(folder / "digits.ms")
    accuracy = float(np.mean(session.run(unseen.x).argmax(axis=1) == unseen.y))
    say(f"digits.ms: {(folder / 'digits.ms').stat().st_size} bytes, accuracy {accuracy:.3f}")
    write_whole(folder / "examples.json", json.dumps(examples(known, unseen)).encode())
    for path in (*PAGE.iterdir(), RUNTIME / "lite.js", wasm):
        shutil.copy(path, folder / path.name)
    return accuracy


def make_base(target: Path, known: Digits, epochs: int = 15) -> None:
    """Trains a small net on the digits; `target` has an int8 base and a float32 head that trains

    Raises ConvertError.
    """
    rng = np.random.default_rng(0)
    base = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding="same", rng=rng),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding="same", rng=rng),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 32, 64, rng=rng),
        nn.ReLU(),
    )
    net = nn.Sequential(base=base, head=nn.Linear(64, 10, rng=rng))
    data = train.ArrayDataset(x=known.x, label=known.y)
    train.fit(net, data, optimizer=train.Adam(0.002), epochs=epochs, progress=False)
    net.name_weights()
    model = Model({"infer": train.inference_graph(net, {"x": ("batch", SIDE, SIDE, 1)})})
    head = TrainSpec(optimizer="sgd:lr=0.1", trainable=["head.*"])
    convert(model, target, quantize="int8", calibration={"x": known.x[:256]}, train=head)


def examples(known: Digits, unseen: Digits) -> dict[str, list[dict[str, object]]]:
    """Digits to look at, that no training saw, and digits to rehearse, that it saw"""

    def some(of: Digits) -> list[dict[str, object]]:
        chosen = [i for k in range(10) for i in np.flatnonzero(of.y == k)[:EXAMPLES]]
        return [{"label": int(of.y[i]), "pixels": of.x[i].ravel().tolist()} for i in chosen]

    return {"unseen": some(unseen), "known": some(known)}


def wasm_module(folder: Path = ROOT / "build/wasm") -> Path:
    """lite.wasm, built in `folder`; raises SiteError where the tools are missing or fail"""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    options = ["-DLITE_PYTHON=OFF", f"-DPython_EXECUTABLE={sys.executable}"]
    options.append(f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'cmake/wasm.cmake'}")
    for command in (
        ["cmake", "-S", str(ROOT), "-B", str(folder), "-GNinja", *options],
        ["cmake", "--build", str(folder), "--target", "lite_wasm"],
    ):
        try:
            env = os.environ | {"PATH": path}
            subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        except subprocess.CalledProcessError as error:
            last = (error.stdout + error.stderr).strip().splitlines()[-1]
            raise SiteError(f"lite.wasm: {last}; it wants Debian's {PACKAGES}") from None
        except OSError as error:
            raise SiteError(f"lite.wasm: cmake cannot be run: {error.strerror}") from None
    return folder / "bin/lite.wasm"
