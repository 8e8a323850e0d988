"""Digits through six numbers and back."""

import numpy as np

from cloud import nn, ops
from cloud.train import Adam, ArrayDataset, fit


def train(x, y, x_val, y_val):
    """The mean squared error of validation."""
    rng = np.random.default_rng(0)
    net = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 64, rng=rng), nn.ReLU(), nn.Linear(64, 6, rng=rng),
        nn.Linear(6, 64, rng=rng), nn.ReLU(), nn.Linear(64, 64, rng=rng),
        lambda x: ops.reshape(x, shape=(x.shape[0], 8, 8)),
    )  # fmt: skip
    history = fit(
        net, ArrayDataset(x=x, target=x), optimizer=Adam(3e-3), epochs=20,
        loss=nn.loss.mean_squared_error, validation=ArrayDataset(x=x_val, target=x_val),
    )  # fmt: skip
    return history["val_loss"][-1]
