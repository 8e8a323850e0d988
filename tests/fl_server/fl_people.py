"""Certified clients, updates and seeded randomness for the tests of the protocol."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fl_server.secagg.certificate import RevocationList, Subject, certify, revoke
from fl_server.secagg.client import Advertised, Member, join
from fl_server.secagg.encode import Update, encode
from fl_server.secagg.keys import Identity, RandomBytes
from fl_server.secagg.messages import CohortReply, Context
from fl_server.secagg.params import Encoding, Params, complete_graph
from fl_server.secagg.policy import Memory, Policy
from fl_server.secagg.run import Stage, run_round
from fl_server.secagg.server import Adverts, Agreements, Reveals, Total, Vectors

NOW = 1_000_000.0
AUTHORITY = Identity(hashlib.sha256(b"authority").digest())
CONTEXT = Context("clinic", "watches", "shoulder", 7, hashlib.sha256(b"model").digest())
REVOCATIONS = revoke(AUTHORITY, 1, set())


def seeded(seed: object) -> RandomBytes:
    """A stream of bytes that depends on the seed alone."""
    count = 0

    def draw(size: int) -> bytes:
        nonlocal count
        count += 1
        return hashlib.shake_256(f"{seed}/{count}".encode()).digest(size)

    return draw


def subject_of(i: int, public: bytes, **changes: object) -> Subject:
    fields = {
        "serial": 1000 + i,
        "client": 10 + 3 * i,
        "public_key": public,
        "not_before": 0,
        "not_after": 2_000_000,
        "tenant": CONTEXT.tenant,
        "population": CONTEXT.population,
    }
    return Subject(**(fields | changes))


def identity_seed(i: int) -> bytes:
    return hashlib.sha256(f"identity {i}".encode()).digest()


def identity_of(i: int) -> Identity:
    return Identity(identity_seed(i))


def member(i: int, **changes: object) -> Member:
    identity = identity_of(i)
    certificate = certify(AUTHORITY, subject_of(i, identity.public, **changes))
    return Member(identity, certificate, AUTHORITY.public)


def members(count: int) -> list[Member]:
    return [member(i) for i in range(count)]


def encoding_of(length: int, **changes: object) -> Encoding:
    fields = {
        "length": length,
        "value_bits": 16,
        "max_weight": 1,
        "clip_norm": 100.0,
        "clip_value": 1.0,
        "loss_cap": 8.0,
    }
    return Encoding(**(fields | changes))


def updates_of(people: list[Member], encoding: Encoding, seed: int = 0) -> dict[int, Update]:
    rng = np.random.default_rng(seed)
    return {
        m.id: Update(
            delta=rng.uniform(-1.2, 1.2, encoding.length).astype(np.float32),
            weight=int(rng.integers(1, encoding.max_weight + 1)),
            loss=float(rng.uniform(0, 3)),
            correct=int(rng.integers(0, 50)),
            examples=50,
        )
        for m in people
    }


@dataclass
class Round:
    """A finished round, and what the survivors had encoded, summed without any mask."""

    total: Total
    plain: np.ndarray


def play(
    people: list[Member],
    updates: dict[int, Update],
    encoding: Encoding,
    last: dict[int, Stage] | None = None,
    revocations: RevocationList = REVOCATIONS,
    seed: object = 0,
) -> Round:
    """Run a round and sum the survivors' integers beside it.     raises what the round raises"""
    draws: list[bytes] = []
    source = seeded(seed)

    def recorded(size: int) -> bytes:
        draws.append(source(size))
        return draws[-1]

    total = run_round(
        people, updates, CONTEXT, encoding, revocations, recorded, Policy(2), NOW, last
    )
    # The last thing that is drawn is each survivor's seed for rounding, in their order.
    params, session = total.session.params, total.session.id
    seeds = dict(zip(total.survivors, draws[-len(total.survivors) :], strict=True))
    words = [encode(updates[i], params, session, seeds[i]) for i in total.survivors]
    plain = np.sum(np.stack(words).astype(np.uint64), axis=0, dtype=np.uint64)
    return Round(total, plain & np.uint64(2**params.ring_bits - 1))


class Table:
    """A round played stage by stage, so that a test can change what lies between two."""

    def __init__(
        self,
        count: int = 6,
        context: Context = CONTEXT,
        floor: int = 2,
        make_params: Callable[[int, Encoding], Params] = complete_graph,
        policy: Policy | None = None,
        **changes: object,
    ) -> None:
        self.policy = policy
        self.people = {m.id: m for m in members(count)}
        self.ids = sorted(self.people)
        self.encoding = encoding_of(**({"length": 4} | changes))
        self.updates = updates_of(list(self.people.values()), self.encoding)
        self.memories = {i: Memory() for i in self.ids}
        # By stage and client, what happens to a message on its way to the server.
        self.tamper: dict[tuple[str, int], Callable[[bytes], bytes]] = {}
        self.draw = seeded("table")
        self.draws: dict[int, list[bytes]] = {i: [] for i in self.ids}  # what each client drew
        self.adverts = Adverts(context, self.encoding, AUTHORITY.public)
        self.joined = {i: self.join(i, context, floor) for i in self.ids}
        for i in self.ids:
            self.adverts.receive(self.joined[i].message, self.people[i].certificate, NOW)
        self.shares = self.adverts.close(self.draw(32), REVOCATIONS, make_params)

    def join(self, i: int, context: Context = CONTEXT, floor: int = 2) -> Advertised:
        policy = self.policy or Policy(floor)
        arguments = context, self.encoding, policy, self.memories[i], self._draw_for(i)
        return join(self.people[i], *arguments)

    def _draw_for(self, i: int) -> RandomBytes:
        def draw(size: int) -> bytes:
            self.draws[i].append(self.draw(size))
            return self.draws[i][-1]

        return draw

    def cohort(self, **changes: object) -> bytes:
        """The server's answer to the adverts, with fields of it changed."""
        return replace(CohortReply.from_bytes(self.shares.reply), **changes).to_bytes()

    def sent(self, stage: str, i: int, message: bytes) -> bytes:
        return self.tamper.get((stage, i), bytes)(message)

    def share(self) -> Vectors:
        self.shared = {i: s.receive_cohort(self.shares.reply, NOW) for i, s in self.joined.items()}
        for i, state in self.shared.items():
            self.shares.receive(i, self.sent("shares", i, state.message))
        self.vectors = self.shares.close()
        return self.vectors

    def mask(self, without: tuple[int, ...] = ()) -> Agreements:
        self.share()
        self.masked = {
            i: state.receive_shares(self.vectors.reply(i), self.updates[i])
            for i, state in self.shared.items()
            if i not in without
        }
        for i, state in self.masked.items():
            self.vectors.receive(i, self.sent("vectors", i, state.message))
        self.agreements = self.vectors.close()
        return self.agreements

    def agree(self, without: tuple[int, ...] = ()) -> Reveals:
        self.mask(without)
        self.agreed = {
            i: state.receive_survivors(self.agreements.reply) for i, state in self.masked.items()
        }
        for i, state in self.agreed.items():
            self.agreements.receive(i, self.sent("agreements", i, state.message))
        self.reveals = self.agreements.close()
        return self.reveals

    def reveal(self, without: tuple[int, ...] = ()) -> None:
        for i, state in self.agreed.items():
            if i not in without:
                message = state.receive_agreements(self.reveals.reply).message
                self.reveals.receive(i, self.sent("reveals", i, message))
