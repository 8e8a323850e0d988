"""Updates to integers and the sum of them back to a mean.

An update is clipped to an L2 norm, its coordinates to ±c, and each becomes an unsigned integer of b
bits by stochastic rounding, which is unbiased: the mean over n clients errs by at most
c / ((2^b - 1) sqrt(n)) per coordinate in standard deviation. Integers are multiplied by the weight
after rounding, so that light clients are not rounded away. Metrics travel as extra coordinates
under the same mask. Where the encoding has noise, each client adds its share of it here; then there
are no metrics, which would have none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fl_server.errors import ChecksumMismatch, EncodingError, RoundFailed
from fl_server.secagg import labels
from fl_server.secagg.keys import derive
from fl_server.secagg.mask import KEY_SIZE, reduce_ring, stream
from fl_server.secagg.noise import Bits, discrete_gaussian, most_norm
from fl_server.secagg.pack import Words, word_type
from fl_server.secagg.params import EXTRAS, Encoding, Params

SEED_SIZE = 32
_BLOCK = 1 << 16
# At which two roundings in three would have to fail again and again: a chance of 2^-150.
_MOST_ATTEMPTS = 256

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Update:
    """What training gives: delta float32 [d], an integer weight, and sums over the examples seen.

    loss: the mean loss before the update; correct, examples: counts, zero where they mean nothing
    """

    delta: Floats = field(repr=False)  # a log of it would be the end of its secrecy
    weight: int = 1
    loss: float = 0.0
    correct: int = 0
    examples: int = 0


@dataclass(frozen=True)
class Mean:
    """The weighted mean of the survivors' updates and their metrics.

    within_clip: clients whose update was within the clip norm · saturated: clamped coordinates
    """

    delta: npt.NDArray[np.float64]
    clients: int
    weight: int
    loss: float
    correct: int
    examples: int
    within_clip: int
    saturated: int


def encode(update: Update, params: Params, session: bytes, seed: bytes | bytearray) -> Words:
    """The integers of one client     -> [d + extras], each below 2^B; raises EncodingError

    seed: 32 random bytes for the rounding
    """
    encoding = params.encoding
    delta = np.asarray(update.delta)
    norm = _norm(update, delta, encoding)
    scale = min(1.0, encoding.clip_norm / norm) if norm > 0 else 1.0
    kind = word_type(params.ring_bits).type
    words = np.empty(encoding.total_length, kind)
    if encoding.noise:
        _quantise_noisily(delta, scale, params, seed, words[: encoding.length])
        words[encoding.length : -1] = (1, 0, 0, 0, 0, 0)  # the weight, and no metrics
        words[-1] = checksum(words[:-1], params, session)
        return words
    saturated = _quantise(delta, scale, encoding, _rounding_key(seed), words[: encoding.length])
    top, weight = encoding.top, update.weight
    loss = min(max(update.loss, 0.0), encoding.loss_cap) / encoding.loss_cap
    words[: encoding.length] *= kind(weight)
    words[encoding.length : -1] = (
        weight,
        round(loss * top) * weight,
        min(update.correct, top),
        min(update.examples, top),
        norm <= encoding.clip_norm,
        min(saturated, top),
    )
    words[-1] = checksum(words[:-1], params, session)
    return words


def decode(total: Words, clients: int, params: Params, session: bytes) -> Mean:
    """The mean of a sum over `clients` survivors.     raises ChecksumMismatch, RoundFailed"""
    if int(total[-1]) != checksum(total[:-1], params, session):
        raise ChecksumMismatch("the sum does not match the sum of the clients' checksums")
    encoding = params.encoding
    extra = dict(zip(EXTRAS, (int(x) for x in total[encoding.length :]), strict=True))
    weight = extra["weight"]
    if not clients <= weight <= clients * encoding.max_weight:
        raise RoundFailed(
            f"{clients} clients of weight 1 to {encoding.max_weight} cannot sum to weight {weight}"
        )
    scale = encoding.clip_value / (encoding.top * weight)
    if encoding.noise:
        delta = _around_zero(total[: encoding.length], clients, params) * (2.0 * scale)
    else:
        delta = total[: encoding.length] * (2.0 * scale) - encoding.clip_value
    return Mean(
        delta=np.asarray(delta, np.float64),
        clients=clients,
        weight=weight,
        loss=extra["loss"] / (encoding.top * weight) * encoding.loss_cap,
        correct=extra["correct"],
        examples=extra["examples"],
        within_clip=extra["within_clip"],
        saturated=extra["saturated"],
    )


def check_alone(words: Words, params: Params, session: bytes) -> Mean:
    """The update of one client, sent without a mask, if an encoder could have made it: within both
    clips, rounding allowed for, and with metrics within their bounds.

    raises ChecksumMismatch, RoundFailed
    """
    mean, encoding = decode(words, 1, params, session), params.encoding
    step = 2 * encoding.clip_value / encoding.top
    most = encoding.clip_norm + step * math.sqrt(encoding.length)
    norm, highest = np.linalg.norm(mean.delta), encoding.top * mean.weight
    if norm > most or int(words[: encoding.length].max(initial=0)) > highest:
        raise RoundFailed(f"an update of norm {norm:.3g}, want at most {most:.3g}")
    bounds = dict.fromkeys(EXTRAS[:-1], encoding.top)
    bounds |= {"weight": encoding.max_weight, "loss": highest, "within_clip": 1}
    for name, word in zip(bounds, words[encoding.length :], strict=False):
        if word > bounds[name]:
            raise RoundFailed(f"{name} of one client is {word}, want at most {bounds[name]}")
    return mean


def checksum(words: Words, params: Params, session: bytes) -> int:
    """sum r_l * u_l mod 2^B, with r public, of the session: linear, so that sums of it add up."""
    key = derive(session, session, labels.CHECKSUM_KEY, KEY_SIZE)
    total = 0
    for start, r in stream(key, len(words), params.ring_bits):
        np.multiply(r, words[start : start + len(r)], out=r)
        total += int(r.sum(dtype=words.dtype))
    return total % (1 << params.ring_bits)


def _norm(update: Update, delta: Floats, encoding: Encoding) -> float:
    """The L2 norm of an update that can be encoded.     raises EncodingError"""
    if delta.dtype != np.float32 or delta.shape != (encoding.length,):
        raise EncodingError(
            f"update is {delta.dtype}{list(delta.shape)}, wanted float32[{encoding.length}]"
        )
    # Not by BLAS, whose threads get into each other's way where many devices share a process.
    squares = (np.square(part, dtype=np.float64).sum() for part in _parts(delta))
    norm = math.sqrt(sum(squares, 0.0))  # of float32 it is finite if all of them are
    if not (math.isfinite(norm) and np.isfinite(update.loss)):
        raise EncodingError("update or loss has values that are not finite")
    if not 1 <= update.weight <= encoding.max_weight:
        raise EncodingError(f"weight is {update.weight}, wanted 1 to {encoding.max_weight}")
    if min(update.correct, update.examples) < 0:
        raise EncodingError("counts are below zero")
    return norm


def _parts(delta: Floats) -> Iterator[Floats]:
    """What is worked on at a time, so that it stays near."""
    for start in range(0, len(delta), _BLOCK):
        yield delta[start : start + _BLOCK]


def _around_zero(total: Words, clients: int, params: Params) -> npt.NDArray[np.int64]:
    """The sum with noise, which may be below zero, in steps     words of the ring -> int64 [d]"""
    ring, middle = 1 << params.ring_bits, params.encoding.top // 2 * clients
    shifted = total.astype(np.uint64) + np.uint64((ring // 2 - middle) % ring)
    return (shifted & np.uint64(ring - 1)).astype(np.int64) - ring // 2


def _rounding_key(seed: bytes | bytearray, attempt: int = 0) -> bytes:
    info = labels.ROUNDING_KEY + (attempt.to_bytes(4, "little") if attempt else b"")
    return derive(seed, bytes(32), info, KEY_SIZE)


def _quantise_noisily(
    delta: Floats, scale: float, params: Params, seed: bytes | bytearray, words: Words
) -> None:
    """Write the integers of `delta` with noise. Those without it are rounded until their norm is
    within what the noise is for (Kairouz 2021, algorithm 1).     raises EncodingError"""
    encoding = params.encoding
    most, middle = int(most_norm(encoding) ** 2), encoding.top // 2
    for attempt in range(_MOST_ATTEMPTS):
        _quantise(delta, scale, encoding, _rounding_key(seed, attempt), words)
        if _squared(words, middle) <= most:
            break
    else:
        raise EncodingError(f"{_MOST_ATTEMPTS} roundings have a norm above that of the encoding")
    bits = Bits(derive(seed, bytes(32), labels.NOISE_KEY, KEY_SIZE))
    words += discrete_gaussian(encoding.noise, len(words), bits).astype(words.dtype)
    reduce_ring(words, params.ring_bits)


def _squared(words: Words, middle: int) -> int:
    """The squared norm of integers around their middle, exactly."""
    total = 0
    for start in range(0, len(words), _BLOCK // 2):  # 2^15 squares of 23 bits
        apart = words[start : start + _BLOCK // 2].astype(np.int64) - middle
        total += int(np.square(apart).sum())
    return total


def _quantise(delta: Floats, scale: float, encoding: Encoding, key: bytes, words: Words) -> int:
    """Write the integers of `delta` into `words`; the number of clamped coordinates comes out."""
    factor, saturated = scale / encoding.clip_value, 0
    # Multiples of 2^-32 in [0, 1): adding one and cutting rounds up as often as it should.
    for start, chance in stream(key, encoding.length, 32):
        part = delta[start : start + len(chance)].astype(np.float64)
        part *= factor
        clipped = np.clip(part, -1.0, 1.0)
        saturated += int(np.count_nonzero(clipped != part))
        clipped += 1.0
        clipped *= 0.5 * encoding.top
        np.multiply(chance, 2.0**-32, out=part)
        part += clipped
        np.minimum(part, encoding.top, out=part)
        words[start : start + len(chance)] = part
    return saturated
