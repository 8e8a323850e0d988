"""The CNN and MLP families as people write them in PyTorch, small; tests export them to ONNX."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn


def mlp(sizes: tuple[int, ...] = (20, 32, 16, 5)) -> nn.Module:
    layers: list[nn.Module] = [nn.Flatten()]
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def lenet(classes: int = 10) -> nn.Module:
    """LeCun et al. 1998, with ReLU and max pooling."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, classes),
    )


def conv_norm(
    inputs: int,
    outputs: int,
    size: int = 3,
    stride: int = 1,
    groups: int = 1,
    act: type[nn.Module] | None = nn.ReLU,
) -> nn.Module:
    layers: list[nn.Module] = [
        nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([act()] if act else []))


class Head(nn.Module):
    """Global average pooling and a linear layer."""

    def __init__(self, features: nn.Module, channels: int, classes: int) -> None:
        super().__init__()
        self.features, self.classifier = features, nn.Linear(channels, classes)
        self.pool = nn.AdaptiveAvgPool2d(1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.classifier(torch.flatten(self.pool(self.features(x)), 1))
        return y


def mobilenet_v1(width: float = 0.25, classes: int = 7) -> nn.Module:
    """Howard et al. 2017: 13 depthwise-separable blocks."""
    at = int(32 * width)
    layers = [conv_norm(3, at, stride=2)]
    plan = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5]
    for channels, stride in [*plan, (1024, 2), (1024, 1)]:
        outputs = int(channels * width)
        layers += [conv_norm(at, at, stride=stride, groups=at), conv_norm(at, outputs, 1)]
        at = outputs
    return Head(nn.Sequential(*layers), at, classes)


class InvertedResidual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        self.residual = stride == 1 and inputs == outputs
        widen = [conv_norm(inputs, hidden, 1, act=nn.ReLU6)] if expansion > 1 else []
        self.body = nn.Sequential(
            *widen,
            conv_norm(hidden, hidden, 3, stride, groups=hidden, act=nn.ReLU6),
            conv_norm(hidden, outputs, 1, act=None),
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return x + y if self.residual else y


def mobilenet_v2(width: float = 0.25, classes: int = 7) -> nn.Module:
    """Sandler et al. 2018: 17 inverted residuals."""

    def channels(n: int) -> int:
        return max(8, int(n * width + 4) // 8 * 8)

    at = channels(32)
    layers = [conv_norm(3, at, stride=2, act=nn.ReLU6)]
    for expansion, n, repeats, first in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):  # fmt: skip
        for i in range(repeats):
            layers.append(InvertedResidual(at, channels(n), first if i == 0 else 1, expansion))
            at = channels(n)
    last = channels(1280) if width > 1 else int(1280 * min(width * 2, 1))
    layers.append(conv_norm(at, last, 1, act=nn.ReLU6))
    return Head(nn.Sequential(*layers), last, classes)


class BasicBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            conv_norm(inputs, outputs, stride=stride), conv_norm(outputs, outputs, act=None)
        )
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else conv_norm(inputs, outputs, 1, stride, act=None)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet18(width: int = 8, classes: int = 7) -> nn.Module:
    """He et al. 2016: four stages of two basic blocks."""
    layers: list[nn.Module] = [conv_norm(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)]
    at = width
    for i in range(4):
        for j in range(2):
            outputs = width * 2**i
            layers.append(BasicBlock(at, outputs, 2 if i and j == 0 else 1))
            at = outputs
    return Head(nn.Sequential(*layers), at, classes)


def dscnn(width: int = 16, classes: int = 12) -> nn.Module:
    """Zhang et al. 2017, for spectrograms of 49 frames by 10 coefficients."""
    stem = nn.Sequential(
        nn.ZeroPad2d((1, 1, 4, 5)),
        nn.Conv2d(1, width, (10, 4), 2, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
    )
    blocks: list[nn.Module] = []
    for _ in range(4):
        blocks += [conv_norm(width, width, groups=width), conv_norm(width, width, 1)]
    return Head(nn.Sequential(stem, *blocks), width, classes)


@dataclass(frozen=True)
class Case:
    """A model, the shape of one example, and the nodes that its conversion must leave."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    nodes: dict[str, int]

    def module(self) -> nn.Module:
        """The model in inference mode, with weights and statistics as after some training."""
        torch.manual_seed(0)
        return randomised(self.make())


def randomised(module: nn.Module) -> nn.Module:
    """In inference mode, with norms that hide no mistake: no zeros, no ones."""
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.normal_(part.bias, 0, 0.2)
            nn.init.normal_(part.running_mean, 0, 0.2)  # type: ignore[arg-type]
            nn.init.uniform_(part.running_var, 0.5, 1.5)  # type: ignore[arg-type]
    return module.eval()


def export(
    module: nn.Module,
    path: Path,
    shape: tuple[int, ...],
    *,
    dynamo: bool = False,
    opset: int | None = None,
    free_batch: bool = True,
    keep_norms: bool = False,
) -> Path:
    """`module` as an ONNX file with input `x` and output `y`, by either of PyTorch's exporters.

    `keep_norms`: the older exporter does not fold batch norms itself.
    """
    x = torch.randn(2 if free_batch else 1, *shape)
    options: dict[str, object] = {"opset_version": opset} if opset else {}
    if keep_norms:
        options |= {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}
    if free_batch and dynamo:
        options["dynamic_shapes"] = ({0: torch.export.Dim("batch")},)
    elif free_batch:
        options["dynamic_axes"] = {"x": {0: "batch"}, "y": {0: "batch"}}
    with quiet():
        torch.onnx.export(
            module, (x,), path, input_names=["x"], output_names=["y"], dynamo=dynamo, **options
        )
    return path


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the exporters' talk and warnings."""
    for name in ("torch.onnx", "onnxscript", "onnx_ir"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield


IMAGE_TAIL = {"reduce_mean": 1, "reshape": 1, "linear": 1}
CASES = {
    "mlp": Case(mlp, (20,), {"linear": 3}),
    "lenet": Case(lenet, (1, 28, 28), {"reshape": 2, "conv2d": 2, "max_pool2d": 2, "linear": 3}),
    "mobilenet_v1": Case(
        mobilenet_v1,
        (3, 32, 32),
        {"transpose": 1, "conv2d": 14, "depthwise_conv2d": 13, **IMAGE_TAIL},
    ),
    "mobilenet_v2": Case(
        mobilenet_v2,
        (3, 32, 32),
        {"transpose": 1, "conv2d": 24, "conv2d_add": 11, "depthwise_conv2d": 17, **IMAGE_TAIL},
    ),
    "resnet18": Case(
        resnet18,
        (3, 32, 32),
        {"transpose": 1, "conv2d": 12, "conv2d_add": 8, "max_pool2d": 1, **IMAGE_TAIL},
    ),
    "dscnn": Case(
        dscnn,
        (1, 49, 10),
        {"reshape": 2, "conv2d": 5, "depthwise_conv2d": 4, "reduce_mean": 1, "linear": 1},
    ),
}
