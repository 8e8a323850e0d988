"""Training of imported models beside PyTorch's: python -m bench.trajectories MODELS [--steps N]

MODELS is a folder with real models and data (torch, data/orl_faces, data/images). Three nets with
their published weights are exported to ONNX, converted with a training entry and trained here and
in PyTorch on the same batches: RNet and ONet of MTCNN whole, on faces and what is none, and the
head and last convolution of EfficientNet-Lite0, on crops of photographs that it has to tell apart.
Prints the table of docs/converter.md: losses of both, and how far losses and weights are apart.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

import lite_runtime as lite
from bench.real_nets import SIDE, EfficientNetLite0
from converter import TrainSpec, convert
from ir.graph import Array

BATCH = 16
SHOWN = 5  # losses of a row
BILINEAR = Image.Resampling.BILINEAR
OPTIMIZERS = {"momentum": 0.9, "sgd": 0.0}


@dataclass(frozen=True)
class Case:
    """A net, what of it trains and how, and examples: x [n,c,h,w], label [n]."""

    name: str
    net: nn.Module
    trainable: tuple[str, ...]
    optimizer: str
    lr: float
    x: Array
    label: Array


class RNet(nn.Module):
    """Zhang et al. 2016: whether a square of 24 x 24 points is a face."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 28, 3), nn.PReLU(28)
        self.conv2, self.prelu2 = nn.Conv2d(28, 48, 3), nn.PReLU(48)
        self.conv3, self.prelu3 = nn.Conv2d(48, 64, 2), nn.PReLU(64)
        self.dense4, self.prelu4 = nn.Linear(576, 128), nn.PReLU(128)
        self.dense5_1 = nn.Linear(128, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = _pooled(self.prelu1(self.conv1(x)), 3)
        x = _pooled(self.prelu2(self.conv2(x)), 3)
        x = self.prelu3(self.conv3(x)).permute(0, 3, 2, 1).flatten(1)
        return self.dense5_1(self.prelu4(self.dense4(x)))  # type: ignore[no-any-return]


class ONet(nn.Module):
    """Zhang et al. 2016: the same of 48 x 48 points."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 32, 3), nn.PReLU(32)
        self.conv2, self.prelu2 = nn.Conv2d(32, 64, 3), nn.PReLU(64)
        self.conv3, self.prelu3 = nn.Conv2d(64, 64, 3), nn.PReLU(64)
        self.conv4, self.prelu4 = nn.Conv2d(64, 128, 2), nn.PReLU(128)
        self.dense5, self.prelu5 = nn.Linear(1152, 256), nn.PReLU(256)
        self.dense6_1 = nn.Linear(256, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = _pooled(self.prelu1(self.conv1(x)), 3)
        x = _pooled(self.prelu2(self.conv2(x)), 3)
        x = _pooled(self.prelu3(self.conv3(x)), 2)
        x = self.prelu4(self.conv4(x)).permute(0, 3, 2, 1).flatten(1)
        return self.dense6_1(self.prelu5(self.dense5(x)))  # type: ignore[no-any-return]


def _pooled(x: Tensor, size: int) -> Tensor:
    return nn.functional.max_pool2d(x, size, 2, ceil_mode=True)


def main() -> None:
    p = argparse.ArgumentParser(prog="python -m bench.trajectories", description=__doc__)
    p.add_argument("models", type=Path, help="folder with the real models and data")
    p.add_argument("--steps", type=int, default=20)
    args = p.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    print("| net | | losses | losses apart | weights apart |\n|---|---|---|--:|--:|")
    with tempfile.TemporaryDirectory() as out:
        for case in cases(args.models):
            print("\n".join(rows(case, args.steps, Path(out))), flush=True)


def cases(models: Path) -> Iterator[Case]:
    torch.manual_seed(0)
    for name, net, side in (("rnet", RNet(), 24), ("onet", ONet(), 48)):
        state = torch.load(models / f"torch/mtcnn_{name}.pt", weights_only=True)
        net.load_state_dict({k: v for k, v in state.items() if k in net.state_dict()})
        yield Case(f"MTCNN {name}", net, ("*",), "momentum", 0.01, *faces(models, side))
    lite0 = EfficientNetLite0()
    weights = models / "torch/efficientnet_lite0_imagenet.pth"
    lite0.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    lite0._fc = nn.Linear(1280, 4)
    trainable = ("_fc.*", "_conv_head.*")
    yield Case("EfficientNet-Lite0", lite0, trainable, "sgd", 0.02, *photographs(models))


def faces(models: Path, side: int) -> tuple[Array, Array]:
    """Faces, and parts of photographs without one."""
    files = sorted((models / "data/orl_faces").glob("*/*.pgm"))[::6][:64]
    found = [Image.open(f).convert("RGB").resize((side, side), BILINEAR) for f in files]
    rng = np.random.default_rng(0)
    for name in ("coffee.png", "china.jpg", "baboon.jpg"):
        photo = Image.open(models / "data/images" / name).convert("RGB")
        found += [_part(photo, side, rng) for _ in range(22)]
    x = np.stack([np.asarray(i, np.float32) for i in found]).transpose(0, 3, 1, 2)
    return (x - 127.5) / 128, np.repeat([1, 0], [len(files), len(found) - len(files)])


def photographs(models: Path) -> tuple[Array, Array]:
    """Parts of photographs, by the photograph."""
    rng = np.random.default_rng(1)
    names = ("astronaut.png", "coffee.png", "china.jpg", "baboon.jpg")
    photos = [Image.open(models / "data/images" / n).convert("RGB") for n in names]
    found = [_part(photo, SIDE, rng) for photo in photos for _ in range(16)]
    x = np.stack([np.asarray(i, np.float32) for i in found]).transpose(0, 3, 1, 2)
    return (x - 127) / 128, np.repeat(range(4), 16)


def _part(photo: Image.Image, side: int, rng: np.random.Generator) -> Image.Image:
    size = int(min(photo.size) * rng.uniform(0.3, 0.8))
    left, top = (int(rng.integers(0, n - size + 1)) for n in photo.size)
    return photo.crop((left, top, left + size, top + size)).resize((side, side), BILINEAR)


def rows(case: Case, steps: int, out: Path) -> Iterator[str]:
    net, names = case.net.eval(), dict(case.net.named_parameters())
    moving = [n for n in names if any(fnmatchcase(n, p) for p in case.trainable)]
    session = converted(case, out)
    rng = np.random.default_rng(2)
    batches = [rng.choice(len(case.x), BATCH, replace=False) for _ in range(steps)]
    step = torch.optim.SGD([names[n] for n in moving], case.lr, OPTIMIZERS[case.optimizer])
    ours, theirs = [], []
    for at in batches:
        x, label = case.x[at], case.label[at]
        feed = {"x": x, "label": label.astype(np.int32), "lr": np.float32(case.lr)}
        ours.append(float(session.run(feed, entry="train")["loss"]))
        loss = nn.functional.cross_entropy(net(torch.from_numpy(x)), torch.from_numpy(label))
        net.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        step.step()
        theirs.append(float(loss))
    here, there = np.array(ours), np.array(theirs)
    apart = np.abs(here - there).max() / there.max()
    weights = session.weights()
    far = max(_apart(weights[n], names[n].detach().numpy()) for n in moving)
    shown = np.linspace(0, steps - 1, SHOWN).astype(int)
    yield f"| {case.name} | ours | {_losses(here[shown])} | {apart:.1e} | {far:.1e} |"
    yield f"| | PyTorch | {_losses(there[shown])} | | |"


def converted(case: Case, out: Path) -> lite.Session:
    sizes = {"x": {0: "batch"}, "y": {0: "batch"}}
    kept = {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}
    torch.onnx.export(
        case.net.eval(), (torch.from_numpy(case.x[:2]),), out / "net.onnx", dynamic_axes=sizes,
        input_names=["x"], output_names=["y"], dynamo=False, **kept,
    )  # fmt: skip
    spec = TrainSpec(optimizer=f"{case.optimizer}:lr={case.lr}", trainable=list(case.trainable))
    convert(out / "net.onnx", out / "net.ms", train=spec)
    return lite.load(out / "net.ms", threads=1)


def _apart(ours: Array, theirs: Array) -> float:
    """The largest difference over the largest weight."""
    turned = ours.transpose(0, 3, 1, 2) if ours.ndim == 4 else ours
    return float(np.abs(turned.reshape(theirs.shape) - theirs).max() / np.abs(theirs).max())


def _losses(found: Array) -> str:
    return ", ".join(f"{v:.5f}" for v in found)


if __name__ == "__main__":
    main()
