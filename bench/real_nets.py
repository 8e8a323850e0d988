"""Nets of real accuracy for the benchmark of quantization, in PyTorch: one that is trained here on
Fashion-MNIST, and EfficientNet-Lite0 with its published ImageNet weights."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from ir.graph import Array

CALIBRATION = 256  # examples
# Photographs that come with the models, and the ImageNet classes that are right for them.
PHOTOS = {"coffee.png": (967, 504), "baboon.jpg": (372,), "china.jpg": (698,)}
CROPS = 64  # of each photograph, for agreement with float32
SIDE = 224


@dataclass(frozen=True)
class Task:
    """An ONNX file, samples to calibrate with, and examples that are right or only compared."""

    name: str
    onnx: Path
    calibration: dict[str, Array]
    test: dict[str, Array]
    label: Array | None  # None: agreement with float32 counts


class FashionNet(nn.Sequential):
    """Depthwise separable convolutions for 28 x 28 grey images, about 0.2 million weights."""

    def __init__(self) -> None:
        def separable(c: int, k: int, stride: int) -> list[nn.Module]:
            return [
                nn.Conv2d(c, c, 3, stride, 1, groups=c, bias=False), nn.BatchNorm2d(c), nn.ReLU(),
                nn.Conv2d(c, k, 1, bias=False), nn.BatchNorm2d(k), nn.ReLU(),
            ]  # fmt: skip

        super().__init__(
            nn.Conv2d(1, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
            *separable(32, 64, 2), *separable(64, 128, 1), *separable(128, 128, 2),
            *separable(128, 256, 1), *separable(256, 256, 2), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(256, 10),
        )  # fmt: skip


class Block(nn.Module):
    """Expansion, depthwise convolution, projection; a sum where the sizes allow it."""

    def __init__(self, c: int, k: int, size: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = c * expansion
        self.expands, self.adds = expansion > 1, stride == 1 and c == k
        if self.expands:
            self._expand_conv = nn.Conv2d(c, wide, 1, bias=False)
            self._bn0 = nn.BatchNorm2d(wide, eps=1e-3)
        self._depthwise_conv = nn.Conv2d(
            wide, wide, size, stride, size // 2, groups=wide, bias=False
        )
        self._bn1 = nn.BatchNorm2d(wide, eps=1e-3)
        self._project_conv = nn.Conv2d(wide, k, 1, bias=False)
        self._bn2 = nn.BatchNorm2d(k, eps=1e-3)

    def forward(self, x: Tensor) -> Tensor:
        y = x
        if self.expands:
            y = nn.functional.relu6(self._bn0(self._expand_conv(y)))
        y = nn.functional.relu6(self._bn1(self._depthwise_conv(y)))
        y = self._bn2(self._project_conv(y))
        return x + y if self.adds else y


class EfficientNetLite0(nn.Module):
    """Tan and Le 2019, without squeeze and excitation, with relu6"""

    STAGES = (  # blocks, window, stride, expansion, channels
        (1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112),
        (4, 5, 2, 6, 192), (1, 3, 1, 6, 320),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem = nn.Conv2d(3, 32, 3, 2, 1, bias=False)
        self._bn0 = nn.BatchNorm2d(32, eps=1e-3)
        blocks, c = [], 32
        for count, size, stride, expansion, k in self.STAGES:
            for i in range(count):
                blocks.append(Block(c, k, size, stride if i == 0 else 1, expansion))
                c = k
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = nn.Conv2d(c, 1280, 1, bias=False)
        self._bn1 = nn.BatchNorm2d(1280, eps=1e-3)
        self._fc = nn.Linear(1280, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.relu6(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        x = nn.functional.relu6(self._bn1(self._conv_head(x)))
        return self._fc(x.mean((2, 3)))  # type: ignore[no-any-return]


def fashion(models: Path, out: Path, epochs: int = 3) -> Task:
    """FashionNet after `epochs` over the training images, with the 10,000 of the test."""
    folder = models / "data/fashion-mnist"
    x, label = _images(folder, "train"), _labels(folder, "train")
    test, test_label = _images(folder, "t10k"), _labels(folder, "t10k")
    path = out / "fashion.onnx"
    if not path.exists():
        net = _trained(x, label, epochs)
        torch.save(net.state_dict(), path.with_suffix(".pt"))
        _export(net, path, (1, 28, 28))
    rows = np.random.default_rng(0).choice(len(x), CALIBRATION, replace=False)
    return Task("FashionNet", path, {"x": x[rows]}, {"x": test}, test_label)


def efficientnet(models: Path, out: Path) -> Task:
    """EfficientNet-Lite0, with crops of photographs; those to calibrate with are others."""
    net = EfficientNetLite0()
    weights = models / "torch/efficientnet_lite0_imagenet.pth"
    net.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    path = out / "efficientnet_lite0.onnx"
    if not path.exists():
        _export(net.eval(), path, (3, SIDE, SIDE))
    photos = [Image.open(p).convert("RGB") for p in sorted((models / "data/images").glob("*.*g"))]
    known = [_crops(p, 16, seed=1) for p in photos]
    test = [_crops(p, CROPS, seed=2) for p in photos]
    return Task(
        "EfficientNet-Lite0", path, {"x": np.concatenate(known)}, {"x": np.concatenate(test)}, None
    )


def photographs(models: Path) -> tuple[dict[str, Array], list[tuple[int, ...]]]:
    """The middle of each photograph of `PHOTOS`, and its right classes."""
    found = [_middle(Image.open(models / "data/images" / name).convert("RGB")) for name in PHOTOS]
    return {"x": np.concatenate(found)}, list(PHOTOS.values())


def _trained(x: Array, label: Array, epochs: int) -> nn.Module:
    torch.manual_seed(0)
    net = FashionNet().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    batch, steps = 128, epochs * (len(x) // 128)
    step = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
    rate = torch.optim.lr_scheduler.OneCycleLR(step, 3e-3, total_steps=steps)
    data, target = torch.from_numpy(x), torch.from_numpy(label.astype(np.int64))
    for _ in range(epochs):
        for rows in torch.randperm(len(x))[: len(x) // batch * batch].view(-1, batch):
            image = data[rows]
            image = image.flip(3) if torch.rand(()) < 0.5 else image
            loss = nn.functional.cross_entropy(net(image), target[rows])
            step.zero_grad()
            loss.backward()
            step.step()
            rate.step()
    return net.eval()


def _export(net: nn.Module, path: Path, shape: tuple[int, ...]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    names = {"input_names": ["x"], "output_names": ["y"]}
    free = {"x": {0: "batch"}, "y": {0: "batch"}}
    torch.onnx.export(
        net, (torch.zeros(1, *shape),), path, **names, dynamic_axes=free, dynamo=False
    )


def _images(folder: Path, part: str) -> Array:
    raw = gzip.decompress((folder / f"{part}-images-idx3-ubyte.gz").read_bytes())
    pixels = np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 1, 28, 28)
    return (pixels.astype(np.float32) / 255 - 0.286) / 0.353


def _labels(folder: Path, part: str) -> Array:
    raw = gzip.decompress((folder / f"{part}-labels-idx1-ubyte.gz").read_bytes())
    return np.frombuffer(raw, np.uint8, offset=8).astype(np.int32)


def _numbers(image: Image.Image) -> Array:
    pixels = np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BICUBIC), np.float32)
    return ((pixels - 127) / 128).transpose(2, 0, 1)[None]


def _middle(photo: Image.Image) -> Array:
    side = int(min(photo.size) * 0.875)
    left, top = ((n - side) // 2 for n in photo.size)
    return _numbers(photo.crop((left, top, left + side, top + side)))


def _crops(photo: Image.Image, count: int, seed: int) -> Array:
    """Squares of a third of the photograph to nearly all of it, half of them mirrored."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        side = int(min(photo.size) * rng.uniform(0.35, 0.98))
        left, top = (int(rng.integers(0, n - side + 1)) for n in photo.size)
        crop = photo.crop((left, top, left + side, top + side))
        found.append(_numbers(crop)[:, :, :, :: int(rng.choice([-1, 1]))])
    return np.concatenate(found)
