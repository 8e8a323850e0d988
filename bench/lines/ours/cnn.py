"""Digits by convolutions with batch norm, the learning rate on a cosine."""

import numpy as np

from cloud import nn
from cloud.train import ArrayDataset, Momentum, batch_count, fit, schedule


def block(inputs, outputs, rng):
    """Convolution, batch norm, ReLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False, rng=rng),
        nn.BatchNorm(outputs),
        nn.ReLU(),
    )


def train(x, y, x_val, y_val):
    """The accuracy of validation."""
    rng = np.random.default_rng(0)
    net = nn.Sequential(
        block(1, 16, rng), nn.MaxPool2d(2), block(16, 32, rng), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(288, 10, rng=rng),
    )  # fmt: skip
    data = ArrayDataset(x=x[..., None], label=y)
    rate = schedule.cosine(0.1, steps=6 * batch_count(len(data), 32))
    history = fit(
        net, data, optimizer=Momentum(0.1), schedule=rate, epochs=6,
        validation=ArrayDataset(x=x_val[..., None], label=y_val),
    )  # fmt: skip
    return history["val_accuracy"][-1]
