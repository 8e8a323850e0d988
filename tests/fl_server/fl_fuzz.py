"""A network that reorders, repeats, changes, delays and drops, between real clients and a server.

    PYTHONPATH=.:tests/fl_server python tests/fl_server/fl_fuzz.py [rounds] [first seed]

Each seed is a round. Whatever happens in it: nothing raises but the errors of the package; no
client makes a second vector, or another answer to a stage; of no client are shares of both secrets
revealed; and the sum is that of the vectors that came, each without its masks, or the round fails.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from fl_people import (
    AUTHORITY,
    CONTEXT,
    NOW,
    REVOCATIONS,
    encoding_of,
    members,
    seeded,
    updates_of,
)

from fl_server.errors import FlError, ProtocolError, StageReplayed
from fl_server.secagg.client import join
from fl_server.secagg.cohort import Layout, ShardedStage, Sum, split
from fl_server.secagg.encode import checksum, encode
from fl_server.secagg.messages import SHARE_OF_B, SHARE_OF_S, Reveal
from fl_server.secagg.pack import unpack
from fl_server.secagg.params import Params, complete_graph
from fl_server.secagg.policy import Memory, Policy
from fl_server.secagg.server import Adverts

RECEIVE = ("receive_cohort", "receive_shares", "receive_survivors", "receive_agreements")


@dataclass(frozen=True)
class Ring(Layout):
    """A sparse graph that only tests accept."""

    def params(self, clients: int, encoding: object) -> Params:
        params = complete_graph(clients, encoding)
        return replace(params, neighbours=4, threshold=3) if clients > 5 else params


class Phone:
    """A client with all the states that it was in, and what each was answered."""

    def __init__(self, member, encoding, update, seed) -> None:
        self.id = member.id
        self.update = update
        self.draws: list[bytes] = []
        source = seeded(f"{seed}/{member.id}")

        def draw(size: int) -> bytes:
            self.draws.append(source(size))
            return self.draws[-1]

        policy = Policy(2, sparse_bits=0)
        self.states = [join(member, CONTEXT, encoding, policy, Memory(), draw)]
        self.taken: list[bytes] = []
        self.vectors: set[bytes] = set()
        self.seed = b""

    def hear(self, stage: int, received: bytes) -> None:
        """Give bytes to the state that waits for what follows a stage, if there is one yet."""
        if stage >= len(self.states):
            return
        more = {0: (NOW,), 1: (self.update,)}.get(stage, ())
        again = stage < len(self.taken)
        try:
            following = getattr(self.states[stage], RECEIVE[stage])(received, *more)
        except StageReplayed:
            assert again
            assert received != self.taken[stage]
            raise
        if stage == 1:
            self.vectors.add(following.message)
            self.seed = self.seed or self.draws[-1]
        if again:
            assert following is self.states[stage + 1]
            assert received == self.taken[stage]
            return
        self.taken.append(received)
        self.states.append(following)


class Network:
    """One round from a seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        people = members(self.dice.randint(3, 8))
        self.encoding = encoding_of(3, max_weight=self.dice.choice([1, 1000]))
        updates = updates_of(people, self.encoding, seed)
        self.phones = {m.id: Phone(m, self.encoding, updates[m.id], seed) for m in people}
        self.certificates = {m.id: m.certificate for m in people}
        self.adverts = Adverts(CONTEXT, self.encoding, AUTHORITY.public)
        self.stages: list[ShardedStage] = []
        self.received: dict[int, bytes] = {}  # the vectors that the server took
        self.calm = self.dice.choice([0.99, 0.9, 0.6])
        self.counts: Counter[str] = Counter()

    def play(self) -> Sum | None:
        """The sum, None where the round failed."""
        for phone in self.shuffled():
            self.trouble(lambda p=phone: self.advertise(p, self.disturbed(p.states[0].message)))
            if self.dice.random() < 0.95:
                self.trouble(lambda p=phone: self.advertise(p, p.states[0].message))
        layout = self.dice.choice([Layout(), Layout(4), Ring()])
        try:
            self.stages = [split(self.adverts, self.dice.randbytes(32), REVOCATIONS, layout)]
            while len(self.stages) < len(RECEIVE):
                self.talk()
                self.stages.append(self.stages[-1].advance())
            self.talk()
            return self.stages[-1].close()
        except ProtocolError as error:
            self.counts[type(error).__name__] += 1
            return None

    def talk(self) -> None:
        """One stage: some noise, then what a network that works would bring to most."""
        for _ in range(self.dice.randint(0, 2 * len(self.phones))):
            phone = self.dice.choice(list(self.phones.values()))
            at = self.dice.randrange(len(self.stages))
            way = self.dice.choice([self.down, self.up])
            self.trouble(lambda w=way, p=phone, s=at: w(p, s, self.disturbed))
        last = len(self.stages) - 1
        for phone in self.shuffled():
            if self.dice.random() < self.calm:
                self.trouble(lambda p=phone: self.down(p, last, bytes))
            if self.dice.random() < self.calm:
                self.trouble(lambda p=phone: self.up(p, last, bytes))

    def down(self, phone: Phone, stage: int, change: Callable[[bytes], bytes]) -> None:
        phone.hear(stage, change(self.stages[stage].reply(phone.id)))

    def up(self, phone: Phone, stage: int, change: Callable[[bytes], bytes]) -> None:
        if stage + 1 >= len(phone.states):
            return
        message = change(phone.states[stage + 1].message)
        new = self.stages[stage].receive(phone.id, message)
        if stage == 1:
            assert new == (phone.id not in self.received)
            assert self.received.setdefault(phone.id, message) == message

    def advertise(self, phone: Phone, message: bytes) -> None:
        self.adverts.receive(message, self.certificates[phone.id], NOW)

    def disturbed(self, message: bytes) -> bytes:
        """The bytes, more often than not changed."""
        kind, changed = self.dice.randrange(6), bytearray(message)
        at = self.dice.randrange(len(message)) if message else 0
        if kind == 0 and message:
            changed[at] ^= 1 << self.dice.randrange(8)
        elif kind == 1:
            del changed[at:]
        elif kind == 2:
            changed[at:at] = self.dice.randbytes(self.dice.randint(1, 40))
        elif kind == 3 and message:
            other = self.dice.choice(list(self.phones.values()))
            piece = self.dice.choice(other.states).message
            changed[at : at + 34] = piece[at : at + 34]
        return bytes(changed)

    def trouble(self, act: Callable[[], None]) -> None:
        """Errors of the package are what such a network is answered with; any other is a bug."""
        try:
            act()
        except FlError as error:
            self.counts[type(error).__name__] += 1

    def shuffled(self) -> list[Phone]:
        return self.dice.sample(list(self.phones.values()), len(self.phones))

    def check(self, done: Sum | None) -> None:
        """What holds after any round."""
        kinds: dict[int, set[int]] = {}
        for phone in self.phones.values():
            assert len(phone.vectors) <= 1
            if len(phone.states) == len(RECEIVE) + 1:
                near = phone.states[1].session.neighbours(phone.id)
                reveal = Reveal.from_bytes(phone.states[-1].message)
                for owner, share in zip(near, reveal.shares, strict=True):
                    kinds.setdefault(owner, set()).add(share.kind)
        for owner, seen in kinds.items():
            assert not {SHARE_OF_B, SHARE_OF_S} <= seen, f"both shares of client {owner}"
        for total in done.totals if done else ():
            self.check_sum(total)

    def check_sum(self, total) -> None:
        """Every vector counts as it came: what a client encoded, and what the network did to it."""
        session, params = total.session, total.session.params
        plain = np.zeros(params.encoding.total_length, np.uint64)
        for i in total.survivors:
            phone, count = self.phones[i], len(plain)
            (made,) = phone.vectors
            plain += encode(phone.update, params, session.id, phone.seed)
            plain += unpack(self.received[i], count, params.ring_bits)
            plain -= unpack(made, count, params.ring_bits)
        plain %= np.uint64(2**params.ring_bits)
        np.testing.assert_array_equal(total.words, plain)
        assert int(total.words[-1]) == checksum(total.words[:-1], params, session.id)


def run(first: int, rounds: int) -> Counter[str]:
    """How many rounds finished or failed, and which errors were met."""
    counts: Counter[str] = Counter()
    for seed in range(first, first + rounds):
        network = Network(seed)
        try:
            done = network.play()
            network.check(done)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        counts["rounds that finished" if done else "rounds that failed"] += 1
        counts += network.counts
    return counts


if __name__ == "__main__":
    rounds, first = (int(x) for x in [*sys.argv[1:], 1000, 0][:2])
    for name, count in run(first, rounds).most_common():
        print(f"{count:9,}  {name}")
