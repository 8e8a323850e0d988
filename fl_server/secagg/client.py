"""The client's side of one round: each state is a class, takes one message, gives the next state.

    join -> Advertised -> Shared -> Masked -> Agreed -> Revealed

A state's `message` is what to send, again and again if need be: it is computed once. A state that
was given its message answers the same bytes with the same next state and refuses others, so no
server can have one stage answered twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from fl_server.errors import (
    BadSignature,
    CohortTooSmall,
    GivenUp,
    Malformed,
    SplitView,
    StageReplayed,
    TooFewShares,
)
from fl_server.secagg import labels
from fl_server.secagg.certificate import Certificate
from fl_server.secagg.encode import SEED_SIZE, Doubles, Update, decode, encode
from fl_server.secagg.keys import KEY_SIZE, Identity, RandomBytes, public_of, verify, wipe
from fl_server.secagg.messages import (
    BAD_SHARE,
    NOTHING,
    SHARE_OF_B,
    SHARE_OF_S,
    Advert,
    Agree,
    Agreement,
    CohortReply,
    Context,
    Reveal,
    RevealedShare,
    SharesDown,
    Vector,
)
from fl_server.secagg.params import Encoding
from fl_server.secagg.policy import Memory, Policy, check_cohort, check_survivors
from fl_server.secagg.secrets import Secrets, mask, open_shares, share
from fl_server.secagg.session import Session, sign_advert
from fl_server.secagg.shamir import SHARE_SIZE

Next = TypeVar("Next")


@dataclass(frozen=True)
class Member:
    """Who takes part: a certified identity and the key of the authority that it trusts."""

    identity: Identity
    certificate: Certificate
    authority: bytes

    @property
    def id(self) -> int:
        return self.certificate.subject.client


@dataclass(frozen=True)
class _Client:
    """What stays the same through the states of one round."""

    member: Member
    context: Context
    encoding: Encoding
    policy: Policy
    memory: Memory
    random: RandomBytes
    secrets: Secrets
    trained: bytes


class _State(Generic[Next]):
    """Holds the answer to the one message that this state takes."""

    def __init__(self, client: _Client, message: bytes) -> None:
        self.message = message
        self._client = client
        self._answer: tuple[bytes, Next] | None = None

    def abort(self) -> None:
        """Erase the secrets; the round is over for this client."""
        self._client.secrets.wipe()

    def _answered(self, received: bytes) -> Next | None:
        if self._answer is None:
            if self._client.secrets.wiped:
                # What would come now would be masked by zeros.
                raise GivenUp(f"{type(self).__name__}: the secrets of this round are erased")
            return None
        seen, answer = self._answer
        if hashlib.sha256(received).digest() != seen:
            raise StageReplayed(f"{type(self).__name__}: this stage was answered for other bytes")
        return answer

    def _keep(self, received: bytes, answer: Next) -> Next:
        self._answer = hashlib.sha256(received).digest(), answer
        return answer


def join(
    member: Member,
    context: Context,
    encoding: Encoding,
    policy: Policy,
    memory: Memory,
    random: RandomBytes,
    trained: bytes = b"",
) -> Advertised:
    """R0: fresh keys for one round of the model that the client has trained on.

    trained: the digest by which the update is spent, that of model and weights; the context's
    where there is no plan in that

    raises SpentUpdate, StaleRound
    """
    trained = trained or context.model
    # Journals were once kept by the context's digest.
    for digest in (trained, context.model):
        memory.check_unspent(context.task, digest)
    memory.join(context.task, context.round)
    secrets = Secrets(
        share_secret=bytearray(random(KEY_SIZE)),
        mask_secret=bytearray(random(KEY_SIZE)),
        b=bytearray(random(KEY_SIZE)),
    )
    advert = sign_advert(
        member.identity,
        member.id,
        context,
        public_of(secrets.share_secret),
        public_of(secrets.mask_secret),
        random(16),
    )
    client = _Client(member, context, encoding, policy, memory, random, secrets, trained)
    return Advertised(client, advert)


class Advertised(_State["Shared"]):
    """Waits for the cohort."""

    def __init__(self, client: _Client, advert: Advert) -> None:
        super().__init__(client, advert.to_bytes())
        self._advert = advert

    def receive_cohort(self, received: bytes, now: float) -> Shared:
        """R1: shares of both secrets for every neighbour.     raises ProtocolError, Malformed"""
        if (answer := self._answered(received)) is not None:
            return answer
        client = self._client
        session = check_cohort(
            CohortReply.from_bytes(received),
            self._advert,
            client.context,
            client.encoding,
            client.member.authority,
            now,
            client.policy,
            client.memory,
        )
        message = share(client.secrets, session, client.member.id, client.random)
        return self._keep(received, Shared(client, session, message.to_bytes()))


class Shared(_State["Masked"]):
    """Waits for the neighbours' shares."""

    def __init__(self, client: _Client, session: Session, message: bytes) -> None:
        super().__init__(client, message)
        self.session = session

    def receive_shares(
        self, received: bytes, update: Update, on_sent: Callable[[Doubles], None] | None = None
    ) -> Masked:
        """R2: the masked vector. From here on the update is spent.

        on_sent: is told, before that, what the vector adds to the sum: float64 [d]
        raises TooFewShares, CohortTooSmall, EncodingError, SpentUpdate, Malformed
        """
        if (answer := self._answered(received)) is not None:
            return answer
        client, session = self._client, self.session
        shared = self._open_shares(SharesDown.from_bytes(received))
        seed = bytearray(client.random(SEED_SIZE))  # which would tell of the noise
        words = encode(update, session.params, session.id, seed)
        wipe([seed])
        if on_sent is not None:
            on_sent(decode(words, 1, session.params, session.id).delta)
        vector = mask(client.secrets, session, client.member.id, words, shared)
        message = Vector(vector).to_bytes()
        digest = hashlib.sha256(message).digest()
        client.memory.spend(client.context.task, client.trained, digest)
        return self._keep(received, Masked(client, session, shared, message, digest))

    def _open_shares(self, down: SharesDown) -> frozenset[int]:
        """Keep the valid shares in the secrets; who shared (U2) comes out."""
        client, session = self._client, self.session
        me, floor = client.member.id, client.policy.cohort_floor
        shared = session.members(down.shared)
        senders = sorted(shared & set(session.neighbours(me)))
        if me not in shared or len(senders) != len(down.sealed):
            raise Malformed(f"{len(down.sealed)} boxes from {len(senders)} clients that shared")
        if len(shared) < floor:
            raise CohortTooSmall(f"{len(shared)} clients have shared, the floor is {floor}")
        valid = open_shares(client.secrets, session, me, zip(senders, down.sealed, strict=True))
        needed = session.params.threshold
        if valid < needed:
            raise TooFewShares(f"{valid} neighbours sent valid shares, {needed} are needed")
        return shared


class Masked(_State["Agreed"]):
    """Waits for the list of survivors.     digest: SHA-256 of the message"""

    def __init__(
        self,
        client: _Client,
        session: Session,
        shared: frozenset[int],
        message: bytes,
        digest: bytes,
    ) -> None:
        super().__init__(client, message)
        self.session = session
        self.digest = digest
        self._shared = shared

    def receive_survivors(self, received: bytes) -> Agreed:
        """R3a: a signature under the survivor list.     raises NotASurvivor, TooFewSurvivors"""
        if (answer := self._answered(received)) is not None:
            return answer
        member = self._client.member
        survivors = self.session.members(received)
        check_survivors(self.session, member.id, self._shared, survivors)
        statement = self.session.agreement(self._shared, survivors)
        signature = Agree(member.identity.sign(labels.AGREE, statement)).to_bytes()
        agreed = Agreed(self._client, self.session, self._shared, survivors, signature)
        return self._keep(received, agreed)


class Agreed(_State["Revealed"]):
    """Waits for the neighbours' signatures under the same list."""

    def __init__(
        self,
        client: _Client,
        session: Session,
        shared: frozenset[int],
        survivors: frozenset[int],
        message: bytes,
    ) -> None:
        super().__init__(client, message)
        self.session = session
        self._shared = shared
        self._survivors = survivors

    def receive_agreements(self, received: bytes) -> Revealed:
        """R3b: one share for each neighbour, never both; then all secrets are erased.

        raises SplitView
        """
        if (answer := self._answered(received)) is not None:
            return answer
        self._check_agreement(Agreement.from_bytes(received))
        message = self._reveal().to_bytes()
        self._client.secrets.wipe()
        return self._keep(received, Revealed(self._client, message))

    def _check_agreement(self, agreement: Agreement) -> None:
        statement = self.session.agreement(self._shared, self._survivors)
        me, params = self._client.member.id, self.session.params
        agreed = {me}
        for signed in agreement.signed:
            if signed.client not in self._survivors or signed.client in agreed:
                continue
            try:
                public = self.session.identities[signed.client]
                verify(public, labels.AGREE, statement, signed.signature, "agreement")
            except BadSignature:
                continue
            agreed.add(signed.client)
        near = len(agreed & set(self.session.neighbours(me)))
        if near < params.threshold:
            raise SplitView(
                f"{near} neighbours signed the survivor list shown here, "
                f"{params.threshold} are needed"
            )
        if len(agreed) < params.quorum:
            raise SplitView(
                f"{len(agreed)} clients signed the survivor list shown here, "
                f"{params.quorum} are needed"
            )

    def _reveal(self) -> Reveal:
        shares = []
        for owner in self.session.neighbours(self._client.member.id):
            kind, share = NOTHING, bytearray(SHARE_SIZE)
            if owner in self._shared:
                kind = BAD_SHARE
                if owner in self._client.secrets.shares:
                    of_s, of_b = self._client.secrets.shares[owner]
                    alive = owner in self._survivors
                    kind, share = (SHARE_OF_B, of_b) if alive else (SHARE_OF_S, of_s)
            shares.append(RevealedShare(kind, bytes(share)))
        return Reveal(tuple(shares))


class Revealed(_State[None]):
    """The end; only the last message is left, to be sent again if need be."""
