"""The parameters of one session, all bound into its id."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fl_server.errors import ModulusTooSmall
from fl_server.secagg.pack import packed_size
from fl_server.secagg.wire import F64, U8, U16, U32, U64, Message

PRG_AES128_CTR = 1
NO_MASKS = 0  # in place of a PRG: the server sees every vector

# The deviation of a client's share of noise, in steps: above the least a sum of shares is discrete
# Gaussian but for 10^-67, up to the most it is drawn in 64 bits.
LEAST_NOISE, MOST_NOISE = 4, 1 << 24
# Of a coordinate with noise: squares of them are added exactly.
MOST_NOISY_BITS = 24
# In deviations of the noise in a sum: a coordinate is beyond that with a chance below 2^-102.
_HEADROOM = 12

# The coordinates that follow the update, in this order; all are masked like the update itself.
EXTRAS = ("weight", "loss", "correct", "examples", "within_clip", "saturated", "checksum")


@dataclass(frozen=True)
class Encoding(Message):
    """How an update becomes integers; the same for every cohort of a task.

    length: coordinates of the update · value_bits: b · clip_norm: C, the L2 norm to clip to ·
    clip_value: c, the bound of one coordinate · loss_cap: the largest loss that is told apart ·
    noise: the deviation of what each client adds to every coordinate, in steps of the grid, 0 for
    nothing (noise.py); where there is noise, there are no metrics
    """

    length: U64
    value_bits: U8
    max_weight: U32
    clip_norm: F64
    clip_value: F64
    loss_cap: F64
    noise: U32 = 0

    @property
    def top(self) -> int:
        """The largest integer of one coordinate before weighting: 2^b - 1, or, with noise, 2^b - 2,
        so that zero is one of them, and what a client without an update sends."""
        return int(2**self.value_bits - 1 - (self.noise > 0))

    @property
    def total_length(self) -> int:
        """Words on the wire: the update and the extra coordinates."""
        return self.length + len(EXTRAS)


@dataclass(frozen=True)
class Params(Message):
    """N clients with k neighbours each, threshold t, a ring of B bits, and the encoding."""

    clients: U16
    neighbours: U16
    threshold: U16
    ring_bits: U8
    prg: U8
    encoding: Encoding

    @property
    def is_complete(self) -> bool:
        """Whether everybody is everybody's neighbour."""
        return self.neighbours == self.clients - 1

    @property
    def is_masked(self) -> bool:
        return self.prg != NO_MASKS

    @property
    def quorum(self) -> int:
        """How many clients must share, upload and sign: two such sets of a cohort have more than a
        third of it in common, so that no two lists of survivors both get their signatures."""
        return max(self.threshold + 1, least_quorum(self.clients))

    @property
    def vector_size(self) -> int:
        """Bytes of one masked vector."""
        return packed_size(self.encoding.total_length, self.ring_bits)


def least_threshold(neighbours: int) -> int:
    """The least t with which two views of the survivors cannot unmask a client."""
    return 2 * neighbours // 3 + 1


def least_quorum(clients: int) -> int:
    """The least quorum of a cohort of so many or more: no sum is over fewer."""
    return least_threshold(clients - 1) + 1


def least_ring_bits(clients: int, encoding: Encoding) -> int:
    """The least B for which no sum can wrap: N * W_max * top < 2^B; of the noise in it, which may
    be of any size, 12 deviations fit on either side."""
    root = math.isqrt(max(clients - 1, 0)) + 1  # of N, rounded up
    span = 2 * _HEADROOM * encoding.noise * root
    return (clients * encoding.max_weight * encoding.top + span).bit_length()


def complete_graph(clients: int, encoding: Encoding) -> Params:
    """The parameters for a cohort in which everybody is everybody's neighbour."""
    params = Params(
        clients=clients,
        neighbours=clients - 1,
        threshold=least_threshold(clients - 1),
        ring_bits=min(least_ring_bits(clients, encoding), 255),
        prg=PRG_AES128_CTR,
        encoding=encoding,
    )
    check_ring(params)
    return params


def check_ring(params: Params) -> None:
    """Nothing, if the largest possible sum fits the ring.     raises ModulusTooSmall"""
    encoding = params.encoding
    needed = least_ring_bits(params.clients, encoding)
    if not needed <= params.ring_bits <= 64:
        raise ModulusTooSmall(
            f"the sum of {params.clients} clients of weight {encoding.max_weight} and "
            f"{encoding.value_bits} bits takes {needed} bits; the ring has {params.ring_bits}"
        )
    check_noise(encoding)
    if min(encoding.value_bits, encoding.max_weight) < 1:
        raise ModulusTooSmall("value bits and the largest weight must be at least 1")
    scales = (encoding.clip_norm, encoding.clip_value, encoding.loss_cap)
    if not all(math.isfinite(scale) and scale > 0 for scale in scales):
        raise ModulusTooSmall(f"clip norm, clip value and loss cap are {scales}; all must be > 0")


def check_noise(encoding: Encoding) -> None:
    """Nothing, if there is no noise, or it can be drawn and added.     raises ModulusTooSmall"""
    noise, bits = encoding.noise, encoding.value_bits
    if not noise:
        return
    if not LEAST_NOISE <= noise <= MOST_NOISE:
        raise ModulusTooSmall(
            f"noise of {noise} steps, want {LEAST_NOISE} to {MOST_NOISE}: more value_bits make "
            "smaller steps, fewer make larger ones"
        )
    if not (2 <= bits <= MOST_NOISY_BITS and encoding.max_weight == 1 and encoding.length):
        raise ModulusTooSmall(
            f"noise in {encoding.length} coordinates of {bits} bits and weight up to "
            f"{encoding.max_weight}; want 1 or more, 2 to {MOST_NOISY_BITS} bits, and weight 1"
        )
