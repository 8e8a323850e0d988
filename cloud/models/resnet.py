"""ResNet-8, the image classifier of MLPerf Tiny (He et al. 2016; Banbury et al. 2021)."""

from __future__ import annotations

import numpy as np

from cloud import nn


def resnet8(classes: int = 10, *, width: int = 16, rng: np.random.Generator) -> nn.Module:
    """A convolution and three residual stages of two convolutions     [n,32,32,3] -> [n,classes]"""
    return nn.Sequential(
        stem=_conv_norm(3, width, 3, relu=True, rng=rng),
        stage1=_block(width, width, stride=1, rng=rng),
        stage2=_block(width, 2 * width, stride=2, rng=rng),
        stage3=_block(2 * width, 4 * width, stride=2, rng=rng),
        pool=nn.GlobalAveragePool(),
        classifier=nn.Linear(4 * width, classes, rng=rng),
    )


def _block(inputs: int, outputs: int, *, stride: int, rng: np.random.Generator) -> nn.Module:
    same = stride == 1 and inputs == outputs
    residual = nn.Residual(
        _conv_norm(inputs, outputs, 3, stride=stride, relu=True, rng=rng),
        _conv_norm(outputs, outputs, 3, rng=rng),
        shortcut=None if same else _conv_norm(inputs, outputs, 1, stride=stride, rng=rng),
    )
    return nn.Sequential(residual=residual, relu=nn.ReLU())


def _conv_norm(
    inputs: int,
    outputs: int,
    size: int,
    *,
    stride: int = 1,
    relu: bool = False,
    rng: np.random.Generator,
) -> nn.Module:
    layers: dict[str, nn.Layer] = {
        "conv": nn.Conv2d(
            inputs, outputs, size, stride=stride, padding=size // 2, bias=False, rng=rng
        ),
        "norm": nn.BatchNorm(outputs),
    }
    return nn.Sequential(**layers, **({"relu": nn.ReLU()} if relu else {}))
