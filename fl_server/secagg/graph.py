"""Who is whose neighbour: everybody, or on a sparse graph those near on a shuffled ring.

(Bell 2020, "Secure single-server aggregation with (poly)logarithmic overhead".)

On the complete graph a threshold above two thirds is safe whatever the server shows to whom. On the
sparse one safety is a chance: that of a neighbourhood which holds too many colluders. A client
computes it, for colluders drawn at random, and refuses what is likelier than its own bound.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from math import exp, lgamma, log2

from fl_server.errors import Malformed, SettingsError, ThresholdTooLow
from fl_server.secagg import labels
from fl_server.secagg.params import PRG_AES128_CTR, Encoding, Params, check_ring, least_ring_bits
from fl_server.secagg.shamir import MOST_SHARES

# What the degree and threshold of a sparse graph are made for: a fifth of the clients collude with
# the server, a tenth vanish. The server may try out some 2^20 cohorts until the shuffled ring is to
# its liking, so that 60 bits leave 40.
COLLUDING, DROPPING = 0.2, 0.1
SECURITY_BITS, CORRECTNESS_BITS = 60, 20


def neighbours(nonces: Mapping[int, bytes], params: Params) -> dict[int, tuple[int, ...]]:
    """For each client its neighbours, in order of ids.     nonces: of all adverts, by client"""
    if params.is_complete:
        ids = sorted(nonces)
        return {i: tuple(other for other in ids if other != i) for i in ids}
    return ring(nonces, params.neighbours)


def ring(nonces: Mapping[int, bytes], degree: int) -> dict[int, tuple[int, ...]]:
    """For each client its neighbours, in order of ids: `degree`/2 on either side of a ring.

    nonces: of all adverts; the order of the ring follows from all of them together
    """
    seed = hashlib.sha256(labels.RING + b"".join(nonces[i] for i in sorted(nonces))).digest()
    order = sorted(nonces, key=lambda i: hashlib.sha256(seed + i.to_bytes(4, "little")).digest())
    steps = [step for step in range(-(degree // 2), degree // 2 + 1) if step]
    count = len(order)
    return {
        client: tuple(sorted(order[(place + step) % count] for step in steps))
        for place, client in enumerate(order)
    }


def check_shape(params: Params) -> None:
    """Nothing, if there is a graph of such numbers.     raises Malformed"""
    degree, threshold = params.neighbours, params.threshold
    if not 1 <= threshold <= degree <= min(params.clients - 1, MOST_SHARES):
        raise Malformed(f"threshold {threshold} of {degree} neighbours, {params.clients} clients")
    if degree % 2 and not params.is_complete:
        raise Malformed(f"a ring with {degree} neighbours for each client; want an even number")


def check_sparse(params: Params, least_bits: float = SECURITY_BITS) -> None:
    """Nothing, if a sparse graph is safe but for a chance of 2^-bits.

    raises ThresholdTooLow, Malformed
    """
    check_shape(params)
    n, degree, threshold = params.clients, params.neighbours, params.threshold
    bits = max(security_bits(n, degree, threshold), 0.0)
    if bits < least_bits - 1e-6:  # other languages have other logarithms
        raise ThresholdTooLow(
            f"threshold {threshold} of {degree} neighbours among {n} clients leaves a chance of "
            f"2^-{bits:.0f}, at most 2^-{least_bits:g} is safe"
        )


def sparse_graph(clients: int, encoding: Encoding) -> Params:
    """The fewest neighbours, and a threshold, that are safe and bear drop-outs.

    raises SettingsError, ModulusTooSmall
    """
    degree, threshold = least_sparse(clients)
    params = Params(
        clients=clients,
        neighbours=degree,
        threshold=threshold,
        ring_bits=min(least_ring_bits(clients, encoding), 255),
        prg=PRG_AES128_CTR,
        encoding=encoding,
    )
    check_ring(params)
    return params


@lru_cache(maxsize=64)
def least_sparse(
    clients: int,
    colluding: float = COLLUDING,
    dropping: float = DROPPING,
    security: int = SECURITY_BITS,
) -> tuple[int, int]:
    """The least even degree with a threshold that is safe and bears drop-outs.

    raises SettingsError where a share's one byte of x cannot number so many neighbours
    """
    for degree in range(2, min(clients - 1, MOST_SHARES), 2):
        threshold = degree - _most_absent(clients, degree, dropping)
        if threshold > 0 and security_bits(clients, degree, threshold, colluding) >= security:
            return degree, threshold
    raise SettingsError(f"{clients} clients want more than {MOST_SHARES} neighbours each")


def security_bits(clients: int, degree: int, threshold: int, colluding: float = COLLUDING) -> float:
    """-log2 of the chance that colluders can undo any one client, or cut the graph in two.

    Both shares of a client can be had from `degree` neighbours of whom x collude unless
    2 * threshold > degree + x. The graph of the others falls apart only if `degree`/2 neighbours on
    the ring in a row are colluders or gone, twice; once is counted.
    """
    bad = round(colluding * clients)
    split = _tail(clients - 1, bad, degree, max(2 * threshold - degree, 0))
    cut = (colluding + DROPPING) ** (degree // 2)
    return 0.0 - log2(min(1.0, clients * (split + cut)) or 2.0**-1000)


def _most_absent(clients: int, degree: int, dropping: float) -> int:
    """How many of a client's neighbours vanish at the most, but for a chance of 2^-20 in all."""
    gone = round(dropping * clients)
    for absent in range(degree + 1):
        if clients * _tail(clients - 1, gone, degree, absent + 1) <= 2.0**-CORRECTNESS_BITS:
            return absent
    return degree


def _tail(whole: int, marked: int, drawn: int, least: int) -> float:
    """The chance of at least `least` marked ones among `drawn` out of `whole` (hypergeometric)."""
    most = min(marked, drawn)
    first = max(least, drawn - (whole - marked))
    ways = _log_ways(whole, drawn)
    return sum(
        exp(_log_ways(marked, x) + _log_ways(whole - marked, drawn - x) - ways)
        for x in range(first, most + 1)
    )


def _log_ways(n: int, k: int) -> float:
    """log of n over k."""
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
