"""Nets without branches: the multilayer perceptron and LeNet-5."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from cloud import nn


def mlp(sizes: Sequence[int], *, rng: np.random.Generator) -> nn.Module:
    """Linear layers of `sizes` with ReLU between them     [n,...] -> [n,sizes[-1]]"""
    layers: list[nn.Layer] = [nn.Flatten()]
    for i, (a, b) in enumerate(pairwise(sizes)):
        layers += [nn.ReLU()] if i else []
        layers.append(nn.Linear(a, b, rng=rng))
    return nn.Sequential(*layers)


def lenet(
    classes: int = 10, *, channels: int = 1, padding: int = 2, rng: np.random.Generator
) -> nn.Module:
    """LeNet-5 with ReLU and max pooling     [n,28,28,channels] -> [n,classes]

    padding: of the first convolution, 0 or 2. LeCun et al. 1998.
    """
    return nn.Sequential(
        conv1=nn.Conv2d(channels, 6, 5, padding=padding, rng=rng),
        relu1=nn.ReLU(),
        pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(6, 16, 5, rng=rng),
        relu2=nn.ReLU(),
        pool2=nn.MaxPool2d(2),
        flatten=nn.Flatten(),
        fc1=nn.Linear(16 * (4 + padding // 2) ** 2, 120, rng=rng),
        relu3=nn.ReLU(),
        fc2=nn.Linear(120, 84, rng=rng),
        relu4=nn.ReLU(),
        fc3=nn.Linear(84, classes, rng=rng),
    )
