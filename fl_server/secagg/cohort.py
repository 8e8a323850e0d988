"""A cohort in shards: each is a session of its own, and the server adds their sums in the open.

A stage of the cohort has the stages of all shards and the face of one: it takes a client's message
to the client's shard. A shard that cannot go on is lost, with its error; the others go on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from fl_server.errors import Gone, ProtocolError, RoundFailed
from fl_server.secagg import labels
from fl_server.secagg.certificate import RevocationList
from fl_server.secagg.encode import Mean
from fl_server.secagg.graph import sparse_graph
from fl_server.secagg.keys import hashed
from fl_server.secagg.params import NO_MASKS, Encoding, Params, complete_graph
from fl_server.secagg.server import Adverts, Agreements, Reveals, Shares, Total, Vectors
from fl_server.secagg.session import Session, bitmap

SHARD_SIZE = 100

State = Shares | Vectors | Agreements | Reveals
T = TypeVar("T")


@dataclass(frozen=True)
class Layout:
    """How a cohort becomes sessions: in complete graphs of at most `shard_size` clients, of which
    none is smaller than half of that; or in one, on a sparse graph where there are enough. Without
    masks (`is_masked`) the server sees every vector."""

    shard_size: int = SHARD_SIZE
    sparse: bool = False
    is_masked: bool = True

    def shards(self, clients: int) -> int:
        """How many shards a cohort of so many clients has."""
        return 1 if self.sparse else -(-clients // self.shard_size)

    def least_shard(self, fewest: int, most: int) -> int:
        """The smallest shard of any cohort of `fewest` to `most` clients."""
        # One client more than full shards hold makes the smallest ones.
        one_more = self.shards(fewest) * self.shard_size + 1
        return min(n // self.shards(n) for n in {fewest, min(one_more, most)})

    def quorum(self, clients: int, encoding: Encoding) -> int:
        """How many of a cohort must stay for none of its shards to be lost.

        raises ModulusTooSmall, SettingsError
        """
        shards = self.shards(clients)
        sizes = [(clients + at) // shards for at in range(shards)]
        return sum(self.params(size, encoding).quorum for size in sizes)

    def params(self, clients: int, encoding: Encoding) -> Params:
        """Of a shard of so many clients.     raises ModulusTooSmall, SettingsError"""
        if self.sparse and clients > self.shard_size:
            return sparse_graph(clients, encoding)
        params = complete_graph(clients, encoding)
        return params if self.is_masked else replace(params, prg=NO_MASKS)


@dataclass(frozen=True)
class Cohort:
    """The sessions of a round. `id` is by what devices ask for theirs: of one session, its own."""

    sessions: tuple[Session, ...]

    @cached_property
    def id(self) -> bytes:
        ids = [session.id for session in self.sessions]
        return ids[0] if len(ids) == 1 else hashed(labels.COHORT, *ids)

    @cached_property
    def _shards(self) -> dict[int, int]:
        return {i: at for at, session in enumerate(self.sessions) for i in session.ids}

    @cached_property
    def ids(self) -> tuple[int, ...]:
        return tuple(sorted(self._shards))

    def shard_of(self, client: int) -> int:
        """The place of a client's session.     raises Gone"""
        if client not in self._shards:
            raise Gone(f"client {client} is not in this session")
        return self._shards[client]

    def session_of(self, client: int) -> Session:
        """raises Gone"""
        return self.sessions[self.shard_of(client)]

    def bitmap(self, clients: Iterable[int]) -> bytes:
        """Bit i, lowest first, is set if the i-th id of all is one of `clients`."""
        return bitmap(self.ids, clients)


class ShardedStage:
    """One stage of every shard that is not lost.

    states: by the place of the shard · lost: why the others are
    """

    def __init__(
        self, cohort: Cohort, states: Mapping[int, State], lost: Mapping[int, ProtocolError]
    ) -> None:
        self.cohort = cohort
        self.states = dict(states)
        self.lost = dict(lost)

    @property
    def senders(self) -> frozenset[int]:
        return frozenset().union(*(state.senders for state in self.states.values()))

    @property
    def complete(self) -> bool:
        """Whether no shard has anybody to wait for."""
        return all(
            state.ready if isinstance(state, Agreements | Reveals) else state.complete
            for state in self.states.values()
        )

    def has_enough(self, wanted: int) -> bool:
        """Whether so many clients have sent, and of each shard as many as it needs to go on."""
        return self.complete or (
            len(self.senders) >= wanted
            and all(
                len(state.senders) >= state.session.params.quorum for state in self.states.values()
            )
        )

    @property
    def blamed(self) -> tuple[int, ...]:
        """Whom evidence names, in this stage or in the loss of a shard before it."""
        named = {i for error in self.lost.values() for i in error.who}
        return tuple(sorted(named.union(*(state.blamed for state in self._reveals))))

    @property
    def accusations(self) -> tuple[tuple[int, int], ...]:
        return tuple(sorted(pair for state in self._reveals for pair in state.accusations))

    def state_of(self, client: int) -> State:
        """The stage of a client's shard.     raises Gone, too, where that is lost"""
        at = self.cohort.shard_of(client)
        if at in self.lost:
            raise Gone(f"the shard of client {client} is lost: {self.lost[at]}")
        return self.states[at]

    def receive(self, client: int, message: bytes, digest: bytes = b"") -> bool:
        """Whether the message is new and must be kept.     raises ProtocolError, Malformed, Gone

        digest: of a vector, its SHA-256, where that is known
        """
        state = self.state_of(client)
        if isinstance(state, Vectors):
            return state.receive(client, message, digest)
        return state.receive(client, message)

    def reply(self, client: int) -> bytes:
        """What the stage before this one led to, for one client.     raises Gone"""
        state = self.state_of(client)
        return state.reply(client) if isinstance(state, Vectors) else state.reply

    def advance(self) -> ShardedStage:
        """End the stage in every shard.     raises ProtocolError if that leaves none"""
        states, lost = self._each(_closed)
        return ShardedStage(self.cohort, states, lost)

    def close(self) -> Sum:
        """The sum of the shards' sums.     raises ProtocolError if there is none"""
        ended, lost = self._each(_total)
        totals, means = zip(*ended.values(), strict=True)
        every = tuple(mean for part in means for mean in part)
        return Sum(self.cohort, totals, mean_of(every), lost, every)

    def _each(self, end: Callable[[State], T]) -> tuple[dict[int, T], dict[int, ProtocolError]]:
        ended, lost = {}, dict(self.lost)
        for at, state in self.states.items():
            try:
                ended[at] = end(state)
            except ProtocolError as error:
                lost[at] = error
        if not ended:
            raise _whole_loss(lost)
        return ended, lost

    @property
    def _reveals(self) -> list[Reveals]:
        return [state for state in self.states.values() if isinstance(state, Reveals)]


@dataclass(frozen=True)
class Sum:
    """The sums of the shards that were not lost, and the weighted mean over all survivors.

    means: of each shard, or, without masks, each survivor's update
    """

    cohort: Cohort
    totals: tuple[Total, ...]
    mean: Mean
    lost: Mapping[int, ProtocolError]
    means: tuple[Mean, ...]

    @property
    def survivors(self) -> tuple[int, ...]:
        return tuple(sorted(i for total in self.totals for i in total.survivors))

    @property
    def missing(self) -> int:
        """How many means are not there: of shards that are lost, or, without masks, of clients that
        evidence has named and that were left out."""
        if not any(total.alone for total in self.totals):
            return len(self.lost)
        return len(set(self.blamed) - set(self.survivors))

    @property
    def blamed(self) -> tuple[int, ...]:
        named = {i for total in self.totals for i in total.blamed}
        return tuple(sorted(named.union(*(error.who for error in self.lost.values()))))

    @property
    def accusations(self) -> tuple[tuple[int, int], ...]:
        return tuple(sorted(pair for total in self.totals for pair in total.accusations))


def split(
    adverts: Adverts, server_nonce: bytes, revocations: RevocationList, layout: Layout
) -> ShardedStage:
    """The cohort, shuffled by the server's nonce into shards whose sizes differ by one at most.

    raises CohortTooSmall, ModulusTooSmall, SettingsError
    """
    members = adverts.members(revocations)
    shards = _shuffled(members, server_nonce, layout.shards(len(members)))
    states: dict[int, State] = {
        at: adverts.session_of(
            shard, _nonce_of(server_nonce, at, len(shards)), revocations, layout.params
        )
        for at, shard in enumerate(shards)
    }
    adverts.closed = True
    return ShardedStage(Cohort(tuple(state.session for state in states.values())), states, {})


def mean_of(means: Sequence[Mean]) -> Mean:
    """One mean over the clients of several, each counting by its weight."""
    if len(means) == 1:
        return means[0]
    weight = sum(mean.weight for mean in means)
    return replace(
        means[0],
        delta=np.sum([mean.delta * (mean.weight / weight) for mean in means], axis=0),
        loss=sum(mean.loss * mean.weight for mean in means) / weight,
        weight=weight,
        **{
            name: sum(getattr(mean, name) for mean in means)
            for name in ("clients", "correct", "examples", "within_clip", "saturated")
        },
    )


def _shuffled(members: Sequence[int], nonce: bytes, shards: int) -> list[list[int]]:
    order = sorted(members, key=lambda i: hashlib.sha256(nonce + i.to_bytes(4, "little")).digest())
    return [sorted(order[at::shards]) for at in range(shards)]


def _nonce_of(nonce: bytes, at: int, shards: int) -> bytes:
    return nonce if shards == 1 else hashed(labels.SHARD, nonce, at.to_bytes(4, "little"))


def _closed(state: State) -> State:
    assert not isinstance(state, Reveals), "the last stage is closed, not advanced"
    return state.close()


def _total(state: State) -> tuple[Total, tuple[Mean, ...]]:
    assert isinstance(state, Reveals), "a sum comes of the last stage alone"
    total = state.close()
    return total, total.means()


def _whole_loss(lost: Mapping[int, ProtocolError]) -> ProtocolError:
    """The error of the one shard, or one for all of them."""
    if len(lost) == 1:
        return next(iter(lost.values()))
    who = {i for error in lost.values() for i in error.who}
    what = "; ".join(sorted({str(error) for error in lost.values()}))
    return RoundFailed(f"all {len(lost)} shards are lost: {what}", who)
