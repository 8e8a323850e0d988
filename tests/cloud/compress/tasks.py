"""A small generated task that nets really learn: which of four textures an image shows."""

from __future__ import annotations

import numpy as np

from cloud import nn
from cloud.train import ArrayDataset
from cloud.train.graphs import inference_graph
from ir.graph import Array, Graph

CLASSES, SIZE = 4, 10
INPUT = {"image": ("batch", SIZE, SIZE, 1)}


def textures(count: int, seed: int) -> ArrayDataset:
    """Stripes along one of four directions, with a random phase, strength and noise."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, CLASSES, count)
    angle = label * np.pi / CLASSES
    row, column = np.mgrid[:SIZE, :SIZE]
    along = np.cos(angle)[:, None, None] * row + np.sin(angle)[:, None, None] * column
    phase = rng.uniform(0, 2 * np.pi, (count, 1, 1))
    image = rng.uniform(0.6, 1.4, (count, 1, 1)) * np.sin(1.6 * along + phase)
    image += rng.normal(0, 0.8, image.shape)
    return ArrayDataset(image=image[..., None], label=label)


def convnet(width: int, seed: int) -> nn.Module:
    """Two convolutions with batch norm and a linear layer."""
    rng = np.random.default_rng(seed)
    return nn.Sequential(
        conv1=nn.Conv2d(1, width, 3, padding=1, bias=False, rng=rng),
        norm1=nn.BatchNorm(width),
        relu1=nn.ReLU(),
        conv2=nn.Conv2d(width, 2 * width, 3, stride=2, padding=1, bias=False, rng=rng),
        norm2=nn.BatchNorm(2 * width),
        relu2=nn.ReLU(),
        pool=nn.GlobalAveragePool(),
        fc=nn.Linear(2 * width, CLASSES, rng=rng),
    )


def graph_of(net: nn.Module) -> Graph:
    net.name_weights()
    return inference_graph(net, INPUT)


def accuracy(logits: Array, data: ArrayDataset) -> float:
    return float((logits.argmax(1) == data.columns["label"]).mean())
