"""The server's side of one round: each stage is a class that receives messages until it is closed.

    Adverts -> Shares -> Vectors -> Agreements -> Reveals -> Total

Vectors are summed as they come, so memory grows with the length of one vector, not with the cohort.
What each `receive` accepts is all that a stage needs to be built again: the same messages give the
same state.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass

import numpy as np

from fl_server.errors import (
    BadSignature,
    CohortTooSmall,
    Gone,
    Malformed,
    RoundFailed,
    StageReplayed,
    TooFewShares,
)
from fl_server.secagg import labels
from fl_server.secagg.certificate import Certificate, RevocationList, check_certificate
from fl_server.secagg.client import commitment
from fl_server.secagg.encode import Mean, decode
from fl_server.secagg.keys import exchange, public_of, verify, wipe
from fl_server.secagg.mask import add_masks, pair_key, pair_sign, reduce_ring, self_key
from fl_server.secagg.messages import (
    BAD_SHARE,
    MOST_CLIENTS,
    NOTHING,
    SHARE_OF_B,
    SHARE_OF_S,
    Advert,
    Agreement,
    CohortReply,
    Context,
    Reveal,
    SealedShares,
    SharesDown,
    SharesUp,
    Signed,
)
from fl_server.secagg.pack import Words, unpack, word_type
from fl_server.secagg.params import Encoding, complete_graph
from fl_server.secagg.session import Session, check_advert, check_keys, open_session
from fl_server.secagg.shamir import combine


@dataclass(frozen=True)
class Total:
    """The integer sum over the survivors, masks removed.

    blamed: those whom evidence names · accusations: (x, y) where x says that y sent it a bad share,
    which is one client's word against another's
    """

    session: Session
    words: Words
    survivors: tuple[int, ...]
    blamed: tuple[int, ...] = ()
    accusations: tuple[tuple[int, int], ...] = ()

    def mean(self) -> Mean:
        """The weighted mean of the survivors.     raises ChecksumMismatch, RoundFailed"""
        return decode(self.words, len(self.survivors), self.session.params, self.session.id)


class _Stage:
    """Remembers who sent what: a repeated message is harmless and a second one is refused."""

    def __init__(self, allowed: frozenset[int] | None) -> None:
        self.closed = False
        self._allowed = allowed
        self._seen: dict[int, bytes] = {}

    @property
    def senders(self) -> frozenset[int]:
        return frozenset(self._seen)

    @property
    def complete(self) -> bool:
        """Whether everybody who may send has sent."""
        return self._allowed is not None and self.senders == self._allowed

    def _is_repeat(self, client: int, message: bytes) -> bool:
        if self._allowed is not None and client not in self._allowed:
            raise Gone(f"client {client} is not, or no longer, part of this round", [client])
        seen = self._seen.get(client)
        if seen is not None and seen != hashlib.sha256(message).digest():
            raise StageReplayed(f"client {client} sent another message for this stage", [client])
        if seen is None and self.closed:
            raise Gone(f"client {client} is too late: the stage is over", [client])
        return seen is not None

    def _remember(self, client: int, message: bytes) -> None:
        self._seen[client] = hashlib.sha256(message).digest()


class Adverts(_Stage):
    """R0: whoever is certified may join."""

    def __init__(self, context: Context, encoding: Encoding, authority: bytes) -> None:
        super().__init__(None)
        self.context = context
        self._encoding = encoding
        self._authority = authority
        self._adverts: dict[int, tuple[Advert, Certificate]] = {}
        self._keys: set[bytes] = set()

    def receive(self, message: bytes, certificate: Certificate, now: float) -> bool:
        """Whether the advert is new. One that could end the round for others is not taken.

        raises BadCertificate, BadSignature, BadKey, KeysNotDistinct, StageReplayed, Gone, Malformed
        """
        advert = Advert.from_bytes(message)
        subject = check_certificate(
            self._authority, certificate, self.context.tenant, self.context.population, now, set()
        )
        if advert.client != subject.client:
            raise BadSignature(f"client {subject.client} sent an advert of {advert.client}")
        if self._is_repeat(advert.client, message):
            return False
        if len(self._adverts) >= MOST_CLIENTS:
            raise Gone("the cohort is full")
        check_advert(subject.public_key, self.context, advert)
        check_keys(advert, self._keys)
        self._keys |= {advert.share_key, advert.mask_key}
        self._remember(advert.client, message)
        self._adverts[advert.client] = advert, certificate
        return True

    def close(self, server_nonce: bytes, revocations: RevocationList) -> Shares:
        """The cohort is fixed, without those who were revoked since they joined.

        raises CohortTooSmall, ModulusTooSmall
        """
        revoked = {serial.number for serial in revocations.revoked.serials}
        everybody = (self._adverts[client] for client in sorted(self._adverts))
        pairs = [pair for pair in everybody if pair[1].subject.serial not in revoked]
        if len(pairs) < 2:
            raise CohortTooSmall(f"{len(pairs)} clients make no cohort")
        reply = CohortReply(
            context=self.context,
            server_nonce=server_nonce,
            params=complete_graph(len(pairs), self._encoding),
            adverts=tuple(advert for advert, _ in pairs),
            certificates=tuple(certificate for _, certificate in pairs),
            revocations=revocations,
        )
        shares = Shares(open_session(reply), reply.to_bytes())
        self.closed = True
        return shares


class Shares(_Stage):
    """R1: boxes for the neighbours, which the server cannot open."""

    def __init__(self, session: Session, reply: bytes) -> None:
        super().__init__(frozenset(session.ids))
        self.session = session
        self.reply = reply
        self._messages: dict[int, SharesUp] = {}

    def receive(self, client: int, message: bytes) -> bool:
        """Whether the message is new.     raises Malformed, StageReplayed, Gone"""
        if self._is_repeat(client, message):
            return False
        shares = SharesUp.from_bytes(message)
        if shares.session != self.session.id:
            raise Malformed("the shares are of another session")
        if len(shares.sealed) != self.session.params.neighbours:
            raise Malformed(
                f"{len(shares.sealed)} boxes for {self.session.params.neighbours} neighbours"
            )
        self._remember(client, message)
        self._messages[client] = shares
        return True

    def close(self) -> Vectors:
        """U2 is fixed.     raises RoundFailed"""
        _require(self.session, len(self._messages), "shared")
        self.closed = True
        return Vectors(self.session, dict(self._messages))


class Vectors(_Stage):
    """R2: masked vectors, added up as they come."""

    def __init__(self, session: Session, shares: dict[int, SharesUp]) -> None:
        super().__init__(frozenset(shares))
        self.session = session
        self._shares = shares
        params = session.params
        self._sum: Words = np.zeros(params.encoding.total_length, word_type(params.ring_bits))

    def reply(self, client: int) -> bytes:
        """The boxes addressed to one client of U2.     raises Gone"""
        if client not in self._shares:
            raise Gone(f"client {client} did not share in time", [client])
        sealed = tuple(
            _sealed_for(self.session, self._shares, owner, client)
            for owner in sorted(self._shares)
            if owner != client
        )
        return SharesDown(self.session.bitmap(self._shares), sealed).to_bytes()

    def receive(self, client: int, message: bytes) -> bool:
        """Whether the message is new.     raises Malformed, StageReplayed, Gone"""
        if self._is_repeat(client, message):
            return False
        params = self.session.params
        words = unpack(message, params.encoding.total_length, params.ring_bits)
        self._remember(client, message)
        np.add(self._sum, words, out=self._sum)
        return True

    def close(self) -> Agreements:
        """U3 is fixed.     raises RoundFailed"""
        _require(self.session, len(self._seen), "uploaded")
        self.closed = True
        return Agreements(self.session, self._shares, self.senders, self._sum)


class Agreements(_Stage):
    """R3a: survivors sign the list of survivors."""

    def __init__(
        self,
        session: Session,
        shares: dict[int, SharesUp],
        survivors: frozenset[int],
        words: Words,
    ) -> None:
        super().__init__(survivors)
        self.session = session
        self.survivors = survivors
        self.reply = session.bitmap(survivors)
        self._shares = shares
        self._sum = words
        self._signatures: dict[int, bytes] = {}

    @property
    def ready(self) -> bool:
        """Whether every signer has enough others to rely on; nobody else need be waited for."""
        return len(self._signatures) > self.session.params.threshold

    def receive(self, client: int, message: bytes) -> bool:
        """Whether the signature is new and in time.     raises BadSignature, StageReplayed, Gone

        A late one is checked and no more: enough others are handed out, and its sender may reveal.
        """
        late = self.closed and client in self.survivors and client not in self._seen
        if not late and self._is_repeat(client, message):
            return False
        self._check(client, message)
        if late:
            return False
        self._remember(client, message)
        self._signatures[client] = message
        return True

    def close(self) -> Reveals:
        """The signatures that are handed out are fixed.     raises RoundFailed"""
        _require(self.session, len(self._signatures), "signed the survivor list")
        self.closed = True
        return Reveals(self)

    def _check(self, client: int, message: bytes) -> None:
        statement = self.session.agreement(self._shares, self.survivors)
        try:
            public = self.session.identities[client]
            verify(public, labels.AGREE, statement, message, f"agreement of client {client}")
        except BadSignature as error:
            raise BadSignature(str(error), [client]) from None


class Reveals(_Stage):
    """R3b: shares come in until every secret that is needed can be rebuilt."""

    def __init__(self, agreed: Agreements) -> None:
        super().__init__(agreed.survivors)
        self.session = agreed.session
        self.survivors = agreed.survivors
        self._caught: set[int] = set()
        self._accusations: set[tuple[int, int]] = set()
        self._shares = agreed._shares
        self._sum = agreed._sum
        signed = (Signed(c, s) for c, s in sorted(agreed._signatures.items()))
        self.reply = Agreement(tuple(signed)).to_bytes()
        # For each client of U2, the valid shares of the one secret that is wanted of it.
        self._revealed: dict[int, list[bytes]] = {owner: [] for owner in self._shares}

    @property
    def ready(self) -> bool:
        """Whether every wanted secret has its threshold of valid shares."""
        needed = self.session.params.threshold
        return all(len(shares) >= needed for shares in self._revealed.values())

    @property
    def accusations(self) -> tuple[tuple[int, int], ...]:  # who says of whom: bad shares
        return tuple(sorted(self._accusations))

    @property
    def blamed(self) -> tuple[int, ...]:
        """Who was caught, and who is accused by more clients than may collude: one is honest."""
        accusers = Counter(accused for _, accused in self._accusations)
        enough = max(2, -(-self.session.params.clients // 3))
        return tuple(sorted(self._caught | {i for i, n in accusers.items() if n >= enough}))

    def receive(self, client: int, message: bytes) -> bool:
        """Whether the message is new. Wrong shares are skipped and their senders named.

        raises Malformed, StageReplayed, Gone
        """
        if self._is_repeat(client, message):
            return False
        neighbours = self.session.neighbours(client)
        shares = Reveal.from_bytes(message).shares
        if len(shares) != len(neighbours):
            raise Malformed(f"{len(shares)} shares for {len(neighbours)} neighbours")
        self._remember(client, message)
        for owner, revealed in zip(neighbours, shares, strict=True):
            wanted = self._wanted(owner)
            if wanted == NOTHING and revealed.kind == NOTHING:
                continue
            if wanted != NOTHING and revealed.kind == BAD_SHARE:
                self._accusations.add((client, owner))
            elif revealed.kind == wanted and self._matches(owner, client, wanted, revealed.share):
                self._revealed[owner].append(revealed.share)
            else:
                self._caught.add(client)
        return True

    def close(self) -> Total:
        """The sum, masks removed.     raises RoundFailed, naming whom the evidence names"""
        masks: list[tuple[bytes, int]] = []
        for owner in sorted(self._shares):
            secret = self._rebuild(owner)
            remove = self._own_mask if owner in self.survivors else self._pair_masks
            masks += remove(owner, secret)
            wipe([secret])
        add_masks(self._sum, masks)
        reduce_ring(self._sum, self.session.params.ring_bits)
        survivors = tuple(sorted(self.survivors))
        return Total(self.session, self._sum, survivors, self.blamed, self.accusations)

    def _wanted(self, owner: int) -> int:
        if owner not in self._shares:
            return NOTHING
        return SHARE_OF_B if owner in self.survivors else SHARE_OF_S

    def _matches(self, owner: int, holder: int, kind: int, share: bytes) -> bool:
        sealed = _sealed_for(self.session, self._shares, owner, holder)
        digest = sealed.digest_of_b if kind == SHARE_OF_B else sealed.digest_of_s
        return (
            share[0] == self.session.share_x(owner, holder)
            and self.session.share_digest(owner, holder, kind, share) == digest
        )

    def _rebuild(self, owner: int) -> bytearray:
        try:
            return combine(self._revealed[owner], self.session.params.threshold)
        except TooFewShares as error:
            raise RoundFailed(f"client {owner}: {error}", self.blamed) from None

    def _own_mask(self, owner: int, b: bytearray) -> list[tuple[bytes, int]]:
        if commitment(self.session.id, b) != self._shares[owner].commitment:
            raise RoundFailed(f"client {owner} shared a secret it did not commit to", [owner])
        return [(self_key(b, self.session.id, owner, self.session.params.ring_bits), -1)]

    def _pair_masks(self, owner: int, mask_secret: bytearray) -> list[tuple[bytes, int]]:
        """The masks that a vanished client shares with survivors, which nothing cancels."""
        if public_of(mask_secret) != self.session.adverts[owner].mask_key:
            raise RoundFailed(f"client {owner} shared a key that is not its own", [owner])
        session, bits = self.session, self.session.params.ring_bits
        masks = []
        for survivor in sorted(self.survivors):
            shared = exchange(mask_secret, session.adverts[survivor].mask_key)
            key = pair_key(shared, session.id, owner, survivor, bits)
            masks.append((key, -pair_sign(survivor, owner)))
        return masks


def _sealed_for(
    session: Session, shares: dict[int, SharesUp], owner: int, holder: int
) -> SealedShares:
    return shares[owner].sealed[session.share_x(owner, holder) - 1]


def _require(session: Session, count: int, did: str) -> None:
    """Fewer than this and no client's secret could be rebuilt: each needs t others."""
    needed = session.params.threshold + 1
    if count < needed:
        raise RoundFailed(f"{count} of {session.params.clients} clients {did}, {needed} are needed")
