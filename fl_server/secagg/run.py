"""A whole round in memory: the protocol on one page, for readers, tests and benchmarks."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from fl_server.secagg import client as client_side
from fl_server.secagg.certificate import RevocationList
from fl_server.secagg.client import Agreed, Masked, Member, Shared
from fl_server.secagg.encode import Update
from fl_server.secagg.keys import RandomBytes
from fl_server.secagg.messages import Context
from fl_server.secagg.params import Encoding
from fl_server.secagg.policy import Memory, Policy
from fl_server.secagg.server import Adverts, Total


class Stage(IntEnum):
    """The last thing that a client does."""

    ADVERTISE = 0
    SHARE = 1
    VECTOR = 2
    AGREE = 3
    REVEAL = 4


def run_round(
    members: list[Member],
    updates: Mapping[int, Update],
    context: Context,
    encoding: Encoding,
    revocations: RevocationList,
    random: RandomBytes,
    policy: Policy,
    now: float,
    last: Mapping[int, Stage] | None = None,
) -> Total:
    """The sum over those who sent their vector.     raises RoundFailed

    last: for clients that vanish, the last stage in which they send
    """
    last = last or {}

    def reaches(client: int, stage: Stage) -> bool:
        return last.get(client, Stage.REVEAL) >= stage

    adverts = Adverts(context, encoding, members[0].authority)
    joined = {
        m.id: client_side.join(m, context, encoding, policy, Memory(), random) for m in members
    }
    for m in members:
        adverts.receive(joined[m.id].message, m.certificate, now)

    shares = adverts.close(random(32), revocations)
    shared: dict[int, Shared] = {}
    for i in filter(lambda i: reaches(i, Stage.SHARE), joined):
        shared[i] = joined[i].receive_cohort(shares.reply, now)
        shares.receive(i, shared[i].message)

    vectors = shares.close()
    masked: dict[int, Masked] = {}
    for i in filter(lambda i: reaches(i, Stage.VECTOR), shared):
        masked[i] = shared[i].receive_shares(vectors.reply(i), updates[i])
        vectors.receive(i, masked[i].message)

    agreements = vectors.close()
    agreed: dict[int, Agreed] = {}
    for i in filter(lambda i: reaches(i, Stage.AGREE), masked):
        agreed[i] = masked[i].receive_survivors(agreements.reply)
        agreements.receive(i, agreed[i].message)

    reveals = agreements.close()
    for i in filter(lambda i: reaches(i, Stage.REVEAL), agreed):
        reveals.receive(i, agreed[i].receive_agreements(reveals.reply).message)
    return reveals.close()
