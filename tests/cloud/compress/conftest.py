"""A trained net, made once."""

from __future__ import annotations

import pytest

from cloud import nn
from cloud.train import Adam, fit
from ir.graph import Array
from tests.cloud.compress.tasks import convnet, textures

Trained = tuple[nn.Module, dict[str, Array]]


@pytest.fixture(scope="session")
def trained_state() -> dict[str, Array]:
    net = convnet(12, seed=0)
    fit(net, textures(1200, 0), optimizer=Adam(0.01), epochs=6, progress=False)
    return net.state_dict()


@pytest.fixture
def trained(trained_state: dict[str, Array]) -> nn.Module:
    """A fresh copy of the trained net."""
    net = convnet(12, seed=0)
    net.load_state_dict(trained_state)
    return net
