"""Digits by a multilayer perceptron."""

import numpy as np

from cloud import nn
from cloud.train import Adam, ArrayDataset, fit


def train(x, y, x_val, y_val):
    """The accuracy of validation."""
    rng = np.random.default_rng(0)
    net = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 128, rng=rng), nn.ReLU(), nn.Linear(128, 10, rng=rng)
    )
    data, validation = ArrayDataset(x=x, label=y), ArrayDataset(x=x_val, label=y_val)
    history = fit(net, data, optimizer=Adam(3e-3), epochs=20, validation=validation)
    return history["val_accuracy"][-1]
