"""Times secure aggregation: client cryptography and the server's unmasking, by cohort and length.

    python -m bench.secagg [--clients 20] [--length 1000000] [--dropped 2] [--sparse] [--json]

Times are CPU time of one thread; those of clients are means. "protocol" is all that a client
computes but its training, "cryptography" the same without encoding. The sum is checked against the
plain one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from fl_server.secagg.certificate import Subject, certify, revoke
from fl_server.secagg.client import Masked, Member, Shared, join
from fl_server.secagg.cohort import Layout, ShardedStage, Sum, split
from fl_server.secagg.encode import SEED_SIZE, Update, encode
from fl_server.secagg.keys import Identity
from fl_server.secagg.messages import Context
from fl_server.secagg.pack import Words
from fl_server.secagg.params import Encoding
from fl_server.secagg.policy import Memory, Policy
from fl_server.secagg.server import Adverts
from fl_server.secagg.shamir import MOST_SHARES
from lite_runtime.bench import peak_bytes

T = TypeVar("T")
NOW = 1000.0


class Stopwatch:
    """Seconds and calls by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}

    def time(self, name: str, work: Callable[[], T]) -> T:
        start = time.thread_time()
        result = work()
        self.seconds[name] = self.seconds.get(name, 0.0) + time.thread_time() - start
        self.calls[name] = self.calls.get(name, 0) + 1
        return result

    def each_ms(self, name: str) -> float:
        return 1000 * self.seconds[name] / self.calls[name]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--length", type=int, default=1_000_000)
    parser.add_argument("--dropped", type=int, default=2, help="clients that share and vanish")
    parser.add_argument("--sparse", action="store_true", help="on a ring, for 257 clients or more")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measure(options.clients, options.length, options.dropped, options.sparse)
    if options.json:
        print(json.dumps(figures, indent=1))
    else:
        for name, value in figures.items():
            shown = f"{value:,.4g}" if isinstance(value, float) else f"{value!s}"
            print(f"{name:32} {shown:>12}")


def measure(clients: int, length: int, dropped: int, sparse: bool = False) -> dict[str, Any]:
    """One round in memory; all vectors but one are dropped as soon as they are summed."""
    watch, draw = Stopwatch(), Seeded()
    encoding = Encoding(length, 16, 1, 1e3, 0.1, 10.0)
    layout = Layout(MOST_SHARES + 1, sparse=True) if sparse else Layout()
    vectors, shared = _share(watch, draw, clients, encoding, layout)
    sessions = vectors.cohort.sessions
    # Each shard has its part of the clients that share and vanish.
    gone = {i for session in sessions for i in session.ids[: dropped // len(sessions)]}
    alive = {i: state for i, state in shared.items() if i not in gone}
    masked, plain = _upload(watch, draw, vectors, alive, length)
    done = _finish(watch, vectors, masked)
    exact = len(done.totals) == len(sessions) and all(
        np.array_equal(total.words, words % np.uint64(2**total.session.params.ring_bits))
        for total, words in zip(done.totals, plain, strict=True)
    )
    params = sessions[0].params
    sizes = {"neighbours": params.neighbours, "threshold": params.threshold}
    figures = figures_of(watch, params.neighbours, length, params.vector_size)
    return figures | sizes | {"shards": len(sessions), "exact": bool(exact)}


def _share(
    watch: Stopwatch, draw: Seeded, clients: int, encoding: Encoding, layout: Layout
) -> tuple[ShardedStage, dict[int, Shared]]:
    authority = Identity(bytes(32))
    context = Context("bench", "default", "bench", 1, bytes(32))
    adverts, joined, shared = Adverts(context, encoding, authority.public), {}, {}
    for m in (member(i, authority) for i in range(clients)):
        arguments = m, context, encoding, Policy(2), Memory(), draw
        joined[m.id] = watch.time("advertise", lambda a=arguments: join(*a))
        adverts.receive(joined[m.id].message, m.certificate, NOW)
    shares = split(adverts, draw(32), revoke(authority, 1, set()), layout)
    for i, state in joined.items():
        cohort = shares.reply(i)
        shared[i] = watch.time("share", lambda s=state, c=cohort: s.receive_cohort(c, NOW))
        shares.receive(i, shared[i].message)
    return shares.advance(), shared


def _upload(
    watch: Stopwatch, draw: Seeded, vectors: ShardedStage, shared: dict[int, Shared], length: int
) -> tuple[dict[int, Masked], list[Words]]:
    """The clients that have uploaded, and for each shard the sum of what they encoded."""
    update = Update(np.random.default_rng(0).normal(0, 0.01, length).astype(np.float32))
    sessions, masked = vectors.cohort.sessions, {}
    plain = [np.zeros(s.params.encoding.total_length, np.uint64) for s in sessions]
    for i, before in shared.items():
        seed, session = draw(SEED_SIZE), vectors.cohort.session_of(i)
        given = update, session.params, session.id, seed
        plain[vectors.cohort.shard_of(i)] += watch.time("encode", lambda g=given: encode(*g))
        boxes = vectors.reply(i)
        # The client draws the same seed next, and so encodes the same integers.
        draw.give(seed)
        state = watch.time("mask", lambda s=before, b=boxes: s.receive_shares(b, update))
        watch.time("server: add one vector", lambda i=i, s=state: vectors.receive(i, s.message))
        state.message = b""
        masked[i] = state
    return masked, plain


def _finish(watch: Stopwatch, vectors: ShardedStage, masked: dict[int, Masked]) -> Sum:
    agreements, agreed = vectors.advance(), {}
    for i, state in masked.items():
        survivors = agreements.reply(i)
        agreed[i] = watch.time("agree", lambda s=state, m=survivors: s.receive_survivors(m))
        agreements.receive(i, agreed[i].message)
    reveals = agreements.advance()
    for i, state in agreed.items():
        signed = reveals.reply(i)
        revealed = watch.time("reveal", lambda s=state, m=signed: s.receive_agreements(m))
        reveals.receive(i, revealed.message)
    return watch.time("server: unmask", reveals.close)


def figures_of(watch: Stopwatch, neighbours: int, length: int, vector_size: int) -> dict[str, Any]:
    """What is printed: a client's and the server's milliseconds, bytes, memory."""
    protocol = ("advertise", "share", "mask", "agree", "reveal")
    figures: dict[str, Any] = {f"client: {n}, ms": watch.each_ms(n) for n in protocol}
    figures["client: encode (in mask), ms"] = watch.each_ms("encode")
    whole = sum(watch.each_ms(n) for n in protocol)
    figures["client: protocol, ms"] = whole
    figures["client: cryptography, ms"] = whole - watch.each_ms("encode")
    for name in ("server: add one vector", "server: unmask"):
        figures[f"{name}, ms"] = watch.each_ms(name)
    figures["vector, bytes"] = vector_size
    figures["plain float32, bytes"] = 4 * length
    figures["ratio up"] = (vector_size + 276 + 148 * neighbours) / (4 * length)
    figures["peak memory, MB"] = peak_bytes() / 2**20
    return figures


class Seeded:
    """Random bytes that repeat, with a place to give some back."""

    def __init__(self) -> None:
        self._count = 0
        self._given: list[bytes] = []

    def give(self, data: bytes) -> None:
        self._given.append(data)

    def __call__(self, size: int) -> bytes:
        if self._given and len(self._given[0]) == size:
            return self._given.pop()
        self._count += 1
        return hashlib.shake_256(self._count.to_bytes(8, "little")).digest(size)


def member(i: int, authority: Identity) -> Member:
    identity = Identity(hashlib.sha256(f"bench {i}".encode()).digest())
    subject = Subject(i, i + 1, identity.public, 0, 2000, "bench", "default")
    return Member(identity, certify(authority, subject), authority.public)


if __name__ == "__main__":
    main()
