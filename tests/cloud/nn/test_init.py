"""Initialisers: their spread, their seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cloud import nn
from cloud.nn import init

SHAPE = (64, 3, 3, 32)
FANS = (288, 576)

SPREADS = {
    "kaiming_uniform": (init.kaiming_uniform, math.sqrt(2 / 288)),
    "kaiming_normal": (init.kaiming_normal, math.sqrt(2 / 288)),
    "glorot_uniform": (init.glorot_uniform, math.sqrt(2 / (288 + 576))),
    "glorot_normal": (init.glorot_normal, math.sqrt(2 / (288 + 576))),
    "uniform": (init.uniform(0.3), 0.3 / math.sqrt(3)),
    "normal": (init.normal(0.2), 0.2),
}


@pytest.mark.parametrize("name", SPREADS)
def test_an_initialiser_has_its_standard_deviation_and_seed(name: str) -> None:
    make, std = SPREADS[name]
    a = make(np.random.default_rng(0), SHAPE, init.fans(SHAPE))
    assert a.dtype == np.float32
    assert a.std() == pytest.approx(std, rel=0.02)
    assert abs(a.mean()) < 4 * std / math.sqrt(a.size)
    np.testing.assert_array_equal(a, make(np.random.default_rng(0), SHAPE, FANS))


def test_fans_are_counted_over_the_window() -> None:
    assert init.fans(SHAPE) == (288, 576)
    assert init.fans((5, 7)) == (7, 5)


def test_a_depthwise_filter_sums_one_channel() -> None:
    layer = nn.DepthwiseConv2d(4096, 3, rng=np.random.default_rng(0))
    assert layer.weight.data.std() == pytest.approx(math.sqrt(2 / 9), rel=0.02)


def test_layers_take_an_initialiser_and_the_same_seed_gives_the_same_net() -> None:
    a, b = (nn.Linear(3, 2, init=init.normal(1.0), rng=np.random.default_rng(7)) for _ in range(2))
    np.testing.assert_array_equal(a.weight.data, b.weight.data)
    np.testing.assert_array_equal(
        nn.Linear(3, 2, init=init.ones, rng=np.random.default_rng(0)).weight.data, 1
    )
