"""The next token of a sequence by a causal transformer."""

import numpy as np

from cloud import nn
from cloud.train import AdamW, ArrayDataset, fit


class Model(nn.Module):
    """Logits of each next token     [n,t] -> [n,t,16]"""

    def __init__(self, rng):
        self.token = nn.Embedding(16, 32, rng=rng)
        self.place = nn.Embedding(24, 32, rng=rng)
        self.blocks = nn.Sequential(
            nn.TransformerBlock(32, 4, causal=True, rng=rng),
            nn.TransformerBlock(32, 4, causal=True, rng=rng),
            nn.LayerNorm(32),
            nn.Linear(32, 16, rng=rng),
        )

    def forward(self, x):
        return self.blocks(self.token(x) + self.place.weight)


def train(x, y, x_val, y_val):
    """The cross-entropy of validation."""
    history = fit(
        Model(np.random.default_rng(0)), ArrayDataset(x=x, label=y),
        optimizer=AdamW(3e-3, weight_decay=0.01, clip_norm=1.0), loss=nn.loss.cross_entropy(),
        epochs=15, validation=ArrayDataset(x=x_val, label=y_val),
    )  # fmt: skip
    return history["val_loss"][-1]
