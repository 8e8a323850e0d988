"""Noise that clients add: its distribution, its place in the ring, and what it is enough for."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from fl_people import Table, encoding_of, members, play, updates_of
from scipy import stats

from fl_server.errors import EncodingMismatch, ModulusTooSmall
from fl_server.secagg import encode as encoding_module
from fl_server.secagg import noise
from fl_server.secagg.encode import Update, decode, encode
from fl_server.secagg.keys import derive
from fl_server.secagg.mask import KEY_SIZE
from fl_server.secagg.noise import Bits, discrete_gaussian, inflation, most_norm, multiplier
from fl_server.secagg.params import (
    LEAST_NOISE,
    MOST_NOISE,
    check_noise,
    complete_graph,
    least_ring_bits,
)
from fl_server.secagg.policy import Policy
from fl_server.secagg.run import Stage

SESSION = bytes(range(32))


def pmf(deviation: float, reach: int) -> np.ndarray:
    """Of a discrete Gaussian at -reach to reach."""
    x = np.arange(-reach, reach + 1)
    weight = np.exp(-(x**2) / (2 * deviation**2))
    return weight / weight.sum()


@pytest.mark.parametrize("deviation", [4, 7, 31])
def test_noise_has_the_chances_of_a_discrete_gaussian(deviation):
    drawn = discrete_gaussian(deviation, 400_000, Bits(b"a key of 16 byte"))
    reach = 4 * deviation
    inside = np.abs(drawn) <= reach
    counts = np.bincount(drawn[inside] + reach, minlength=2 * reach + 1)
    chances = pmf(deviation, 20 * deviation)[16 * deviation : -16 * deviation or None]
    expected = np.append(chances, 1 - chances.sum()) * drawn.size
    found = np.append(counts, drawn.size - inside.sum())
    assert stats.chisquare(found, expected).pvalue > 0.01


@pytest.mark.parametrize("deviation", [1000, MOST_NOISE])
def test_large_noise_is_normal_to_the_eye_and_of_its_deviation(deviation):
    drawn = discrete_gaussian(deviation, 200_001, Bits(bytes(16)))
    assert stats.kstest(drawn / deviation, "norm").pvalue > 0.01
    assert drawn.std() == pytest.approx(deviation, rel=0.01)
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.01
    # No grid is coarser than that of the integers.
    assert stats.chisquare(np.bincount(drawn % 16, minlength=16)).pvalue > 0.01
    other = discrete_gaussian(deviation, 200_001, Bits(b"x" * 16))
    assert abs(np.corrcoef(drawn, other)[0, 1]) < 0.01


@pytest.mark.parametrize("deviation", [LEAST_NOISE - 1, 0, -5, MOST_NOISE + 1])
def test_noise_that_cannot_be_drawn_exactly_is_not_drawn(deviation):
    with pytest.raises(ValueError, match="want 4 to 16777216"):
        discrete_gaussian(deviation, 8, Bits(bytes(16)))


@pytest.mark.parametrize("bound", [2, 3, 10, 2**62 + 2**61, 2**63])
def test_integers_below_a_bound_are_even(bound):
    drawn = Bits(b"even".ljust(16)).below(bound, 60_000)
    assert int(drawn.max()) < bound
    tenths = (drawn / bound * min(bound, 10)).astype(int)
    assert stats.chisquare(np.bincount(tenths, minlength=min(bound, 10))).pvalue > 0.01


@pytest.mark.parametrize(("over", "under"), [(0, 3), (1, 3), (3, 3), (1, 10**9), (8, 3), (25, 4)])
def test_what_happens_with_an_exponential_chance_happens_so_often(over, under):
    count = 300_000
    flags = noise._happens_exp(np.full(count, over, np.uint64), under, Bits(bytes(16)))
    chance = math.exp(-over / under)
    assert abs(flags.mean() - chance) <= 4 * math.sqrt(chance * (1 - chance) / count) + 1e-12


@pytest.mark.parametrize("deviation", [0.6, 0.8, 1.0, 1.2])
@pytest.mark.parametrize("shares", [2, 3, 6])
def test_a_sum_of_discrete_gaussians_is_one_but_for_what_the_account_allows(deviation, shares):
    """Every chance of the sum against that of the one, by convolution."""
    one = pmf(deviation, 60)
    total = one
    for _ in range(shares - 1):
        total = np.convolve(total, one)
    reach = len(total) // 2
    near = np.abs(np.arange(-reach, reach + 1)) <= 4 * deviation * math.sqrt(shares)
    whole = pmf(deviation * math.sqrt(shares), reach)
    apart = np.abs(np.log(total[near] / whole[near])).max()
    assert apart <= inflation(deviation, shares)
    assert inflation(LEAST_NOISE, 10_000) < 1e-60


def noisy(length: int, **changes: object):
    fields = {"value_bits": 12, "clip_norm": 1.0, "clip_value": 0.5, "noise": 500}
    return encoding_of(length, **(fields | changes))


def integers(update: Update, params, seed: bytes) -> np.ndarray:
    """What a client adds to a sum without its noise, in steps."""
    encoding = params.encoding
    words = encode(update, params, SESSION, seed)[: encoding.length].astype(np.int64)
    bits = Bits(derive(seed, bytes(32), b"noise", KEY_SIZE))
    middle, half = encoding.top // 2, 1 << (params.ring_bits - 1)
    alone = words - middle - discrete_gaussian(encoding.noise, encoding.length, bits)
    return (alone + half) % (2 * half) - half


@pytest.mark.parametrize("changes", [
    {"value_bits": 2}, {"value_bits": 5, "clip_norm": 3.0}, {"value_bits": 24, "noise": 1 << 20},
    {"clip_norm": 1e3, "clip_value": 0.01}, {"clip_norm": 1e-9, "clip_value": 2.0},
])  # fmt: skip
def test_no_client_adds_more_than_the_noise_is_for(changes):
    params, rng = complete_graph(5, noisy(300, **changes)), np.random.default_rng(1)
    bound = most_norm(params.encoding)
    for scale in (1e-3, 0.1, 50.0):
        delta = (scale * rng.standard_normal(300)).astype(np.float32)
        for _ in range(10):
            assert np.linalg.norm(integers(Update(delta), params, rng.bytes(32))) <= bound
    assert not integers(Update(np.zeros(300, np.float32)), params, bytes(32)).any()


def test_a_rounding_that_is_too_long_is_done_again():
    params, rng = complete_graph(5, noisy(64, value_bits=2)), np.random.default_rng(3)
    encoding, words = params.encoding, np.empty(64, np.uint32)
    delta, bound, too_long = np.full(64, 1 / 8, np.float32), most_norm(encoding), []
    for seed in (rng.bytes(32) for _ in range(400)):
        key = encoding_module._rounding_key(seed)
        encoding_module._quantise(delta, 1.0, encoding, key, words)
        if np.linalg.norm(words.astype(int) - encoding.top // 2) > bound:
            too_long.append(seed)
    assert too_long
    for seed in too_long:
        assert np.linalg.norm(integers(Update(delta), params, seed)) <= bound


def test_the_mean_over_many_roundings_is_the_update():
    params = complete_graph(3, noisy(8, noise=4, clip_norm=10.0))
    delta = np.linspace(-0.4, 0.4, 8).astype(np.float32)
    step, rng = 2 * 0.5 / params.encoding.top, np.random.default_rng(5)
    drawn = [
        decode(encode(Update(delta), params, SESSION, rng.bytes(32)), 1, params, SESSION).delta
        for _ in range(800)
    ]
    error = 4 * math.sqrt(16 + 0.25) * step / math.sqrt(800)
    np.testing.assert_allclose(np.mean(drawn, axis=0), delta, atol=error)


def test_a_client_with_noise_says_nothing_in_its_metrics():
    params = complete_graph(3, noisy(8))
    update = Update(np.ones(8, np.float32), 1, 2.5, 7, 9)
    words = encode(update, params, SESSION, bytes(32))
    assert words[8:-1].tolist() == [1, 0, 0, 0, 0, 0]
    mean = decode(words, 1, params, SESSION)
    assert (mean.loss, mean.correct, mean.examples, mean.within_clip, mean.saturated) == (0,) * 5


@pytest.mark.parametrize("bits", [2, 12, 24])
@pytest.mark.parametrize("deviation", [LEAST_NOISE, 5000, MOST_NOISE])
def test_a_sum_with_noise_of_twelve_deviations_does_not_wrap(bits, deviation):
    for clients in (2, 3, 20, 257, 10_000):
        encoding = noisy(3, value_bits=bits, noise=deviation)
        params = replace(complete_graph(2, encoding), clients=clients)
        params = replace(params, ring_bits=least_ring_bits(clients, encoding))
        ring, half = 1 << params.ring_bits, encoding.top // 2
        far = math.ceil(12 * deviation * math.sqrt(clients))
        ends = [clients * encoding.top + far, -far, clients * half]
        total = np.array([end % ring for end in ends] + [clients] + [0] * 6, np.uint64)
        total[-1] = encoding_module.checksum(total[:-1], params, SESSION)
        step = 2 * encoding.clip_value / encoding.top
        found = decode(total, clients, params, SESSION).delta * clients / step
        np.testing.assert_allclose(found, [clients * half + far, -clients * half - far, 0])
        # With a bit less it would.
        assert clients * encoding.top + 24 * deviation * math.ceil(math.sqrt(clients)) >= ring // 2


def test_the_sum_over_survivors_is_exact_with_noise_and_drop_outs():
    people, encoding = members(8), noisy(700, noise=900)
    updates = {i: replace(u, weight=1) for i, u in updates_of(people, encoding).items()}
    last = {people[1].id: Stage.SHARE, people[5].id: Stage.VECTOR}
    found = play(people, updates, encoding, last)
    np.testing.assert_array_equal(found.total.words, found.plain)
    zeros = {i: Update(np.zeros(700, np.float32)) for i in updates}
    still = play(people, zeros, encoding, last).total
    step = 2 * encoding.clip_value / encoding.top
    noise_alone = still.mean().delta * 7 / step
    np.testing.assert_allclose(noise_alone, np.round(noise_alone), atol=1e-6)
    assert noise_alone.std() == pytest.approx(900 * math.sqrt(7), rel=0.1)


@pytest.mark.parametrize("changes", [
    {"noise": 3}, {"noise": MOST_NOISE + 1}, {"value_bits": 1}, {"value_bits": 25},
    {"max_weight": 2},
])  # fmt: skip
def test_noise_that_makes_no_sense_is_refused_by_clients_and_server(changes):
    encoding = noisy(10, **changes)
    with pytest.raises(ModulusTooSmall, match="noise"):
        check_noise(encoding)
    with pytest.raises(EncodingMismatch, match="noise"):
        Policy().check_offer(20, encoding)
    with pytest.raises(ModulusTooSmall, match="noise"):
        complete_graph(20, encoding)


def test_a_client_counts_on_the_noise_of_the_fewest_honest_survivors():
    encoding = noisy(100)
    # Of 20 clients 14 must survive; one of them may be hostile.
    found = encoding.noise * math.sqrt(13) / most_norm(encoding)
    assert multiplier(encoding, 13) == pytest.approx(found, rel=1e-9)
    Policy(noise_multiplier=found * 0.999).check_offer(20, encoding)
    for policy in (
        Policy(noise_multiplier=found * 1.001),
        Policy(noise_multiplier=found * 0.999, hostile=2),
        Policy(noise_multiplier=1e-9, hostile=14),
    ):
        with pytest.raises(EncodingMismatch, match=r"a noise multiplier of .* this device's least"):
            policy.check_offer(20, encoding)
    with pytest.raises(EncodingMismatch, match="a noise multiplier of 0 in the sum"):
        Policy(noise_multiplier=0.1).check_offer(20, replace(encoding, noise=0))
    for scale in ("clip_norm", "clip_value"):
        with pytest.raises(EncodingMismatch, match=f"{scale} 1e-300 is offered"):
            Policy().check_offer(20, replace(encoding, **{scale: 1e-300}))
    for wrong in (math.nan, math.inf, -1.0):  # a floor that nothing is below
        with pytest.raises(EncodingMismatch, match=f"a policy of noise multiplier {wrong}"):
            Policy(noise_multiplier=wrong)
    with pytest.raises(EncodingMismatch, match="noise without masks"):
        Policy(unmasked=True).check_offer(20, encoding, unmasked=True)


def test_a_cohort_smaller_than_the_offer_said_is_refused_for_its_noise():
    """The server offers forty clients, and opens the session with eight."""
    encoding = noisy(4, noise=2000)
    needed = multiplier(encoding, 27 - 1)  # of 40, 27 survive at the least
    policy = Policy(2, noise_multiplier=needed)
    policy.check_offer(40, encoding)
    fields = {name: getattr(encoding, name) for name in ("value_bits", "clip_norm", "clip_value")}
    table = Table(8, policy=policy, noise=2000, **fields)
    with pytest.raises(EncodingMismatch, match="in the sum of 6 clients, 1 of them hostile"):
        table.share()
