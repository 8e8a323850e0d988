"""The masked sum is the plain integer sum, bit for bit, or the round fails and says so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fl_patterns import check, finished, patterns
from fl_people import CONTEXT, Table, encoding_of, members, play, updates_of

from fl_server.errors import SettingsError
from fl_server.secagg.encode import encode
from fl_server.secagg.mask import reduce_ring
from fl_server.secagg.pack import unpack
from fl_server.secagg.run import Stage
from fl_server.task_settings import TaskSettings


@pytest.mark.parametrize("clients", [2, 3, 4, 5])
def test_every_pattern_of_drop_outs_gives_the_exact_sum_or_fails(clients):
    assert finished(clients, patterns(clients)) >= 1


@pytest.mark.parametrize(("clients", "rounds"), [(8, 24), (20, 6)])
def test_random_patterns_of_drop_outs_give_the_exact_sum(clients, rounds):
    rng = np.random.default_rng(clients)
    people, encoding = members(clients), encoding_of(11, max_weight=64)
    updates = updates_of(people, encoding)
    ended = 0
    for _ in range(rounds):
        dropped = rng.permutation(clients)[: rng.integers(0, clients // 3 + 1)]
        last = {m.id: Stage.REVEAL for m in people}
        last |= {people[i].id: Stage(int(rng.integers(0, 4))) for i in dropped}
        ended += check(people, updates, encoding, last)
    assert ended > rounds // 2


@pytest.mark.parametrize(
    ("value_bits", "max_weight"), [(2, 1), (8, 1), (16, 1), (16, 2**12), (24, 2**20), (30, 2**28)]
)
def test_no_sum_wraps_at_the_largest_inputs(value_bits, max_weight):
    people = members(5)
    encoding = encoding_of(4, value_bits=value_bits, max_weight=max_weight)
    updates = updates_of(people, encoding)
    largest = {
        i: type(u)(np.array([9, 9, -9, 9], np.float32), max_weight) for i, u in updates.items()
    }
    played = play(people, largest, encoding)
    top = 5 * max_weight * encoding.top
    assert [int(w) for w in played.total.words[:4]] == [top, top, 0, top]
    assert played.total.words.dtype == (np.uint32 if top < 2**32 else np.uint64)
    np.testing.assert_allclose(played.total.mean().delta, [1, 1, -1, 1])


def test_the_mean_carries_weights_and_metrics():
    people, encoding = members(5), encoding_of(6, max_weight=10)
    updates = updates_of(people, encoding)
    mean = play(people, updates, encoding).total.mean()
    weights = np.array([u.weight for u in updates.values()])
    deltas = np.stack([np.clip(u.delta, -1, 1) for u in updates.values()])
    np.testing.assert_allclose(mean.delta, weights @ deltas / weights.sum(), atol=2 / 65535)
    assert mean.weight == weights.sum()
    assert mean.correct == sum(u.correct for u in updates.values())
    assert mean.examples == 250
    assert mean.within_clip == 5
    assert mean.saturated == sum(int((abs(u.delta) > 1).sum()) for u in updates.values())
    losses = np.array([u.loss for u in updates.values()])
    assert mean.loss == pytest.approx(weights @ losses / weights.sum(), abs=1e-3)


def test_two_sessions_with_the_same_update_and_secrets_look_unrelated():
    # Secrets that a bad source of randomness repeats: the session alone keeps the masks apart.
    vectors = []
    for number in (7, 8):
        table = Table(3, context=replace(CONTEXT, round=number), length=4000)
        table.mask()
        session = table.shares.session
        words = unpack(table.masked[10].message, 4007, session.params.ring_bits)
        seed = table.draws[10][-1]
        vectors.append(words - encode(table.updates[10], session.params, session.id, seed))
    difference = reduce_ring(vectors[0] - vectors[1], session.params.ring_bits)
    counts = np.bincount(difference >> (session.params.ring_bits - 2), minlength=4)
    assert ((counts - 4007 / 4) ** 2 / (4007 / 4)).sum() < 16.3  # chi square, 3 degrees: 0.1 %
    assert table.draws[10][:3] == Table(3).draws[10][:3]


def test_a_strategy_that_wants_single_updates_is_refused():
    with pytest.raises(SettingsError, match="strategy is 'krum'"):
        TaskSettings.checked(name="robust", strategy="krum")
