"""MobileNetV2: inverted residuals with linear bottlenecks (Sandler et al. 2018)."""

from __future__ import annotations

import numpy as np

from cloud import nn

# expansion, channels, blocks, stride of the first block: table 2 of the paper
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet_v2(
    classes: int = 1000, *, width: float = 1.0, size: int = 224, rng: np.random.Generator
) -> nn.Module:
    """[n,size,size,3] -> [n,classes]; `width` scales channels, `size` below 64 strides less"""
    at, last = rounded(32 * width), rounded(1280 * max(width, 1.0))
    halvings = 5 if size >= 64 else 3  # so that small images keep a few pixels to the end
    layers: dict[str, nn.Layer] = {
        "stem": _conv(3, at, 3, stride=2 if halvings == 5 else 1, rng=rng)
    }
    spared = 1 if halvings == 3 else 0
    for i, (expansion, channels, blocks, first) in enumerate(STAGES):
        for j in range(blocks):
            stride = first if j == 0 else 1
            if stride == 2 and spared:
                stride, spared = 1, spared - 1
            outputs = rounded(channels * width)
            layers[f"stage{i + 1}_{j + 1}"] = _bottleneck(at, outputs, expansion, stride, rng)
            at = outputs
    layers["head"] = _conv(at, last, 1, rng=rng)
    return nn.Sequential(
        features=nn.Sequential(**layers),
        pool=nn.GlobalAveragePool(),
        classifier=nn.Linear(last, classes, rng=rng),
    )


def rounded(channels: float, multiple: int = 8) -> int:
    """The nearest multiple of 8 that is not below nine tenths of `channels`."""
    n = max(multiple, int(channels + multiple / 2) // multiple * multiple)
    return n + multiple if n < 0.9 * channels else n


def _bottleneck(
    inputs: int, outputs: int, expansion: int, stride: int, rng: np.random.Generator
) -> nn.Module:
    hidden = inputs * expansion
    layers: dict[str, nn.Layer] = {}
    if expansion > 1:
        layers["expand"] = _conv(inputs, hidden, 1, rng=rng)
    layers["depthwise"] = nn.Sequential(
        conv=nn.DepthwiseConv2d(hidden, 3, stride=stride, padding=1, bias=False, rng=rng),
        norm=nn.BatchNorm(hidden),
        relu=nn.ReLU6(),
    )
    layers["project"] = nn.Sequential(
        conv=nn.Conv2d(hidden, outputs, 1, bias=False, rng=rng), norm=nn.BatchNorm(outputs)
    )
    body = nn.Sequential(**layers)
    return nn.Residual(body) if stride == 1 and inputs == outputs else body


def _conv(
    inputs: int, outputs: int, size: int, *, stride: int = 1, rng: np.random.Generator
) -> nn.Module:
    return nn.Sequential(
        conv=nn.Conv2d(
            inputs, outputs, size, stride=stride, padding=size // 2, bias=False, rng=rng
        ),
        norm=nn.BatchNorm(outputs),
        relu=nn.ReLU6(),
    )
