"""What a client refuses. The floors are its own; nothing that a server sends lowers them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fl_server.errors import (
    BadCertificate,
    BadSignature,
    CohortTooSmall,
    EncodingMismatch,
    ModelMismatch,
    ModulusTooSmall,
    NotASurvivor,
    SpentUpdate,
    StaleRound,
    SwappedKey,
    ThresholdTooLow,
    TooFewSurvivors,
)
from fl_server.secagg.certificate import check_certificate, check_revocations
from fl_server.secagg.graph import SECURITY_BITS, check_sparse
from fl_server.secagg.messages import Advert, CohortReply, Context
from fl_server.secagg.noise import multiplier
from fl_server.secagg.params import (
    NO_MASKS,
    PRG_AES128_CTR,
    Encoding,
    Params,
    check_noise,
    check_ring,
    least_quorum,
    least_ring_bits,
    least_threshold,
)
from fl_server.secagg.session import Session, check_advert, open_session

COHORT_FLOOR = 20
# Ratios to it stay numbers.
_LEAST_SCALE = 1e-12


@dataclass(frozen=True)
class Policy:
    """What a client takes part in, whatever a server asks for.

    cohort_floor: fewest clients in a cohort, and fewest that shared; below 20 is for tests and
    demonstrations · clip_norm, clip_value: the largest bounds of an update and of a coordinate that
    an offer may name: a looser clip would let one client's update stand out in the sum ·
    max_weight: the same of its weight · noise_multiplier: the least noise that clients must have
    added to a sum, over the most that this one adds to it; 0 for any, or none · hostile: of how
    many clients of a sum that noise does not count, as they may work with the server ·
    sparse_bits: how unlikely, as a power of 1/2, it must be that colluders can undo a client on a
    sparse graph; below 60 is for tests · unmasked: whether the server may see the update itself, in
    tasks that say so
    """

    cohort_floor: int = COHORT_FLOOR
    clip_norm: float = 100.0
    clip_value: float = 100.0
    max_weight: int = 1_000_000
    noise_multiplier: float = 0.0
    hostile: int = 1
    sparse_bits: float = SECURITY_BITS
    unmasked: bool = False

    def __post_init__(self) -> None:
        if self.cohort_floor < 2:
            raise CohortTooSmall(f"a floor of {self.cohort_floor} would sum a client with nobody")
        if not 0 <= self.noise_multiplier < math.inf or self.hostile < 0:
            raise EncodingMismatch(
                f"a policy of noise multiplier {self.noise_multiplier} and {self.hostile} hostile "
                "clients; want 0 or more of each"
            )

    def check_offer(self, min_cohort: int, encoding: Encoding, unmasked: bool = False) -> None:
        """Nothing, if a round that may begin with so few, and encodes updates so, suits.

        raises CohortTooSmall, EncodingMismatch
        """
        if unmasked and not self.unmasked:
            raise EncodingMismatch("updates without masks are asked for, this device masks its own")
        for name in ("clip_norm", "clip_value", "max_weight"):
            asked, limit = getattr(encoding, name), getattr(self, name)
            if not _LEAST_SCALE <= asked <= limit:
                raise EncodingMismatch(
                    f"{name} {asked:g} is offered, this device's limit is {limit:g}"
                )
        if min_cohort < self.cohort_floor:
            raise CohortTooSmall(
                f"may begin with {min_cohort} clients, this device's floor is {self.cohort_floor}"
            )
        try:
            check_noise(encoding)
        except ModulusTooSmall as error:
            raise EncodingMismatch(str(error)) from None
        if unmasked and encoding.noise:
            raise EncodingMismatch("noise without masks is a sum's that no update is in alone")
        self.check_noise_of(least_quorum(min_cohort), encoding)

    def check_noise_of(self, survivors: int, encoding: Encoding) -> None:
        """Nothing, if the sum of so few has the noise that this client wants.

        raises EncodingMismatch
        """
        found = multiplier(encoding, survivors - self.hostile) if self.noise_multiplier else 0.0
        if found < self.noise_multiplier:
            raise EncodingMismatch(
                f"a noise multiplier of {found:.3g} in the sum of {survivors} clients, "
                f"{self.hostile} of them hostile; this device's least is {self.noise_multiplier:g}"
            )


class Memory:
    """What a client must never forget; this one lasts as long as the process."""

    def __init__(self) -> None:
        self._rounds: dict[str, int] = {}
        self._spent: dict[tuple[str, bytes], bytes] = {}
        self._revocations = 0

    def join(self, task: str, round_number: int) -> None:
        """Record that a round is joined.     raises StaleRound"""
        self.check_newer(task, round_number)
        self._rounds[task] = round_number
        self.save()

    def check_newer(self, task: str, round_number: int) -> None:
        """Nothing, if the round is above the last one joined.     raises StaleRound"""
        last = self._rounds.get(task)
        if last is not None and round_number <= last:
            raise StaleRound(f"task {task}: round {round_number} comes after round {last}")

    def check_unspent(self, task: str, model: bytes) -> None:
        """Nothing, if no update of this model and its weights has left.     raises SpentUpdate

        model: the digest of both (keys.model_digest), whatever a plan asks of training
        """
        if (task, model) in self._spent:
            raise SpentUpdate(f"task {task}: the update of model {model.hex()[:12]} is spent")

    def spend(self, task: str, model: bytes, vector_hash: bytes) -> None:
        """Record, before its first byte leaves, which vector is sent.     raises SpentUpdate"""
        if self._spent.get((task, model), vector_hash) != vector_hash:
            raise SpentUpdate(f"task {task}: another vector of model {model.hex()[:12]} has left")
        self._spent[task, model] = vector_hash
        self.save()

    @property
    def revocation_number(self) -> int:
        """The number of the newest revocation list seen."""
        return self._revocations

    def saw_revocations(self, number: int) -> None:
        """Record the number of a revocation list that was accepted."""
        if number > self._revocations:
            self._revocations = number
            self.save()

    def save(self) -> None:
        """Make what is remembered outlast the process; here there is nothing to do."""


def check_cohort(
    reply: CohortReply,
    mine: Advert,
    expected: Context,
    encoding: Encoding,
    authority: bytes,
    now: float,
    policy: Policy,
    memory: Memory,
) -> Session:
    """The session, if nothing in the cohort breaks the policy.     raises ProtocolError"""
    _check_context(reply.context, expected)
    if len(reply.adverts) < policy.cohort_floor:
        raise CohortTooSmall(
            f"{len(reply.adverts)} clients in the cohort, the floor is {policy.cohort_floor}"
        )
    _check_params(reply.params, encoding, policy)
    if mine not in reply.adverts:
        raise SwappedKey("the cohort does not hold this client's own keys as it sent them")
    session = open_session(reply)
    _check_members(reply, session, authority, now, memory)
    return session


def check_survivors(
    session: Session, me: int, shared: frozenset[int], survivors: frozenset[int]
) -> None:
    """Nothing, if this client may sign the survivor list.     raises ProtocolError"""
    if me not in survivors:
        raise NotASurvivor("the survivor list leaves this client out")
    if not survivors <= shared:
        raise TooFewSurvivors("the survivor list names clients that never shared")
    params = session.params
    others = len(survivors & set(session.neighbours(me)))
    if others < params.threshold:
        raise TooFewSurvivors(
            f"{others} neighbours in the survivor list, {params.threshold} are needed"
        )
    if len(survivors) < params.quorum:
        raise TooFewSurvivors(
            f"{len(survivors)} clients in the survivor list, {params.quorum} are needed"
        )


def _check_context(context: Context, expected: Context) -> None:
    if context.model != expected.model:
        raise ModelMismatch(
            f"the session is about model {context.model.hex()[:12]}, "
            f"the update about {expected.model.hex()[:12]}"
        )
    if context.round != expected.round:
        raise StaleRound(f"joined round {expected.round}, the session is of round {context.round}")
    if context != expected:
        raise ModelMismatch("the session is of another tenant, population or task")


def _check_params(params: Params, encoding: Encoding, policy: Policy) -> None:
    least = least_threshold(params.neighbours)
    if not params.is_complete:
        check_sparse(params, policy.sparse_bits)
    elif not least <= params.threshold <= params.neighbours:
        raise ThresholdTooLow(
            f"threshold {params.threshold} of {params.neighbours} neighbours, "
            f"at least {least} is safe"
        )
    policy.check_noise_of(params.quorum, encoding)
    prg = NO_MASKS if policy.unmasked else PRG_AES128_CTR
    if params.encoding != encoding or params.prg != prg:
        raise EncodingMismatch("the parameters are not those that the update was prepared for")
    try:
        check_ring(params)
    except ModulusTooSmall as error:
        raise EncodingMismatch(str(error)) from None
    if params.ring_bits != least_ring_bits(params.clients, encoding):
        raise EncodingMismatch(f"a ring of {params.ring_bits} bits is larger than what is needed")


def _check_members(
    reply: CohortReply, session: Session, authority: bytes, now: float, memory: Memory
) -> None:
    revoked = check_revocations(authority, reply.revocations, memory.revocation_number)
    memory.saw_revocations(reply.revocations.revoked.number)
    if len(set(session.identities.values())) != len(session.identities):
        raise BadCertificate("two clients of the cohort have one identity key")
    context = reply.context
    for advert, certificate in zip(reply.adverts, reply.certificates, strict=True):
        subject = check_certificate(
            authority, certificate, context.tenant, context.population, now, revoked
        )
        try:
            check_advert(subject.public_key, context, advert)
        except BadSignature as error:
            raise BadSignature(str(error), [advert.client]) from None
