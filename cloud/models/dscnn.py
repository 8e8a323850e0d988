"""DS-CNN, the keyword spotter of microcontrollers (Zhang et al. 2017)."""

from __future__ import annotations

import numpy as np

from cloud import nn


def dscnn(
    classes: int = 12, *, width: int = 64, blocks: int = 4, rng: np.random.Generator
) -> nn.Module:
    """A convolution, then depthwise-separable blocks     [n,49,10,1] -> [n,classes]

    The input is a spectrogram of 49 frames by 10 coefficients; other sizes work too.
    """
    return nn.Sequential(
        stem=_with_norm(
            nn.Conv2d(1, width, (10, 4), stride=2, padding="same", bias=False, rng=rng), width
        ),
        **{f"block{i + 1}": separable(width, width, rng=rng) for i in range(blocks)},
        pool=nn.GlobalAveragePool(),
        classifier=nn.Linear(width, classes, rng=rng),
    )


def separable(inputs: int, outputs: int, *, stride: int = 1, rng: np.random.Generator) -> nn.Module:
    """A 3x3 depthwise and a 1x1 convolution, each with batch norm and ReLU (Howard et al. 2017)"""
    depthwise = nn.DepthwiseConv2d(inputs, 3, stride=stride, padding=1, bias=False, rng=rng)
    pointwise = nn.Conv2d(inputs, outputs, 1, bias=False, rng=rng)
    return nn.Sequential(
        depthwise=_with_norm(depthwise, inputs), pointwise=_with_norm(pointwise, outputs)
    )


def _with_norm(conv: nn.Module, channels: int) -> nn.Module:
    return nn.Sequential(conv=conv, norm=nn.BatchNorm(channels), relu=nn.ReLU())
