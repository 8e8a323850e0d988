"""Noise that each client adds to its integers before they are masked, so that no sum is without.

It is discrete Gaussian (Kairouz 2021, "The distributed discrete Gaussian mechanism for federated
learning with secure aggregation"): unlike Skellam noise (Agarwal 2021) it can be drawn exactly with
comparisons of integers alone, however large it is, and its cost does not depend on the L1 norm.
What that takes is a sum of discrete Gaussians being one nearly, which `inflation` bounds.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from fl_server.secagg.params import LEAST_NOISE, MOST_NOISE, Encoding

Integers = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint64]
_Flags = npt.NDArray[np.bool_]
_BLOCK = 1 << 16


class Bits:
    """Words of 64 random bits: AES-128-CTR over zeros, from a key of 16 bytes."""

    def __init__(self, key: bytes) -> None:
        self._stream = Cipher(AES(key), CTR(bytes(16))).encryptor()

    def words(self, count: int) -> _Words:
        return np.frombuffer(self._stream.update(bytes(8 * count)), "<u8")

    def below(self, bound: int, count: int) -> _Words:
        """Integers of [0, bound), each as likely as any other     bound: at most 2^63"""
        limit = np.uint64((1 << 64) - 1 - (1 << 64) % bound)  # the last that has a whole turn
        found = self.words(count).copy()
        while (again := np.flatnonzero(found > limit)).size:
            found[again] = self.words(again.size)
        return found % np.uint64(bound)


def discrete_gaussian(deviation: int, count: int, bits: Bits) -> Integers:
    """Integers x, each with a chance in proportion to exp(-x^2 / (2 deviation^2)), exactly

    Rejection from the discrete Laplace distribution of the same scale (Canonne 2020, "The discrete
    Gaussian for differential privacy", algorithm 3); no real number is rounded anywhere.
    """
    if not LEAST_NOISE <= deviation <= MOST_NOISE:
        raise ValueError(f"a deviation of {deviation}, want {LEAST_NOISE} to {MOST_NOISE}")
    out = np.empty(count, np.int64)
    for start in range(0, count, _BLOCK):
        part, filled = out[start : start + _BLOCK], 0
        while filled < part.size:
            # Three in four are accepted.
            drawn = _laplace(deviation, (part.size - filled) * 3 // 2 + 16, bits)
            apart = np.abs(drawn) - deviation
            kept = drawn[_happens_exp((apart * apart).astype(np.uint64), 2 * deviation**2, bits)]
            kept = kept[: part.size - filled]
            part[filled : filled + kept.size] = kept
            filled += kept.size
    return out


def inflation(deviation: int, shares: int) -> float:
    """By how much, as a privacy loss in each coordinate, a sum of `shares` discrete Gaussians is
    away from one (Kairouz 2021, theorem 5: 10 sum of exp(-2 pi^2 deviation^2 k / (k + 1)), of which
    the first term is the largest)."""
    return 10 * (shares - 1) * math.exp(-(math.pi**2) * deviation**2)


def most_norm(encoding: Encoding) -> float:
    """The largest L2 norm, in steps of the grid, of what one client adds to the sum but for its
    noise: a client rounds anew until it is within that (Kairouz 2021, theorem 1, beta = e^-1/2,
    which takes three times at the most on average)."""
    root = math.sqrt(encoding.length)
    norm = min(encoding.clip_norm / encoding.clip_value, root) * encoding.top / 2
    return min(norm + root, math.sqrt(norm**2 + encoding.length / 4 + norm + root / 2))


def multiplier(encoding: Encoding, shares: int) -> float:
    """The noise in a sum over its sensitivity, where so many clients have added theirs; 0 without.

    It stands for a Gaussian's: the sum costs no more privacy than one of this multiplier, in Renyi
    divergences (Kairouz 2021, theorem 5, the last of its three bounds).
    """
    if shares < 1 or not encoding.noise:
        return 0.0
    cost = most_norm(encoding) / (encoding.noise * math.sqrt(shares))
    return 1 / (cost + math.sqrt(encoding.length) * inflation(encoding.noise, shares))


def _laplace(scale: int, tries: int, bits: Bits) -> Integers:
    """At most `tries` integers x, with chances in proportion to exp(-|x| / scale) (Canonne 2020,
    algorithm 2)."""
    low = bits.below(scale, tries)
    low = low[_happens_exp(low, scale, bits)]
    high = np.zeros(low.size, np.uint64)
    going = np.arange(low.size)
    while going.size:
        going = going[_happens_exp(np.ones(going.size, np.uint64), 1, bits)]
        high[going] += np.uint64(1)
    # Above 2^10 scales, whose chance is below 2^-1400, squares would not fit.
    sized = (low + np.uint64(scale) * high).astype(np.int64)[high < 1 << 10]
    minus = bits.below(2, sized.size) == 1
    signed = np.where(minus, -sized, sized)
    return np.asarray(signed[~(minus & (sized == 0))], np.int64)  # there is one zero


def _happens_exp(over: _Words, under: int, bits: Bits) -> _Flags:
    """For each whether something happens whose chance is exp(-over / under)."""
    whole, rest = over // np.uint64(under), over % np.uint64(under)
    happens = _happens_exp_below_one(rest, under, bits)
    going = np.flatnonzero(happens & (whole > 0))
    while going.size:  # exp(-1) as often as it is in there
        happens[going] = _happens_exp_below_one(np.ones(going.size, np.uint64), 1, bits)
        whole[going] -= np.uint64(1)
        going = going[happens[going] & (whole[going] > 0)]
    return happens


def _happens_exp_below_one(over: _Words, under: int, bits: Bits) -> _Flags:
    """The same where over <= under: the first k at which something of chance over / (under k) does
    not happen is odd so often (von Neumann 1951; Canonne 2020, algorithm 1)."""
    odd = np.ones(over.size, np.bool_)
    going, k = np.arange(over.size), 1
    while going.size:
        going = going[bits.below(under * k, going.size) < over[going]]
        k += 1
        odd[going] = k % 2 == 1
    return odd
