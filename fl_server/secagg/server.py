"""The server's side of one round: each stage is a class that receives messages until it is closed.

    Adverts -> Shares -> Vectors -> Agreements -> Reveals -> Total

Vectors are summed as they come, so memory grows with the length of one vector, not with the cohort.
What each `receive` accepts is all that a stage needs to be built again: the same messages give the
same state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fl_server.errors import BadSignature, CohortTooSmall, Gone
from fl_server.secagg import labels
from fl_server.secagg.certificate import Certificate, RevocationList, check_certificate
from fl_server.secagg.keys import verify
from fl_server.secagg.messages import MOST_CLIENTS, Advert, CohortReply, Context, SharesDown
from fl_server.secagg.pack import unpack
from fl_server.secagg.params import Encoding, Params, complete_graph
from fl_server.secagg.session import Session, check_advert, check_keys, open_session
from fl_server.secagg.stage import Boxes, Stage, require
from fl_server.secagg.tally import Tally
from fl_server.secagg.unmask import Reveals, Total

__all__ = ["Adverts", "Agreements", "Reveals", "Shares", "Total", "Vectors"]


class Adverts(Stage):
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
        if self.is_repeat(advert.client, message):
            return False
        if len(self._adverts) >= MOST_CLIENTS:
            raise Gone("the cohort is full")
        check_advert(subject.public_key, self.context, advert)
        check_keys(advert, self._keys)
        self._keys |= {advert.share_key, advert.mask_key}
        self.remember(advert.client, message)
        self._adverts[advert.client] = advert, certificate
        return True

    def close(
        self,
        server_nonce: bytes,
        revocations: RevocationList,
        make_params: Callable[[int, Encoding], Params] = complete_graph,
    ) -> Shares:
        """The cohort is one session.     raises CohortTooSmall, ModulusTooSmall, SettingsError"""
        shares = self.session_of(self.members(revocations), server_nonce, revocations, make_params)
        self.closed = True
        return shares

    def members(self, revocations: RevocationList) -> list[int]:
        """Who has joined, without those who were revoked since.     raises CohortTooSmall"""
        revoked = {serial.number for serial in revocations.revoked.serials}
        members = [
            i for i in sorted(self._adverts) if self._adverts[i][1].subject.serial not in revoked
        ]
        if len(members) < 2:
            raise CohortTooSmall(f"{len(members)} clients make no cohort")
        return members

    def session_of(
        self,
        members: Sequence[int],
        server_nonce: bytes,
        revocations: RevocationList,
        make_params: Callable[[int, Encoding], Params] = complete_graph,
    ) -> Shares:
        """A session of some of those who have joined, in order of their ids."""
        reply = CohortReply(
            context=self.context,
            server_nonce=server_nonce,
            params=make_params(len(members), self._encoding),
            adverts=tuple(self._adverts[i][0] for i in members),
            certificates=tuple(self._adverts[i][1] for i in members),
            revocations=revocations,
        )
        return Shares(open_session(reply), reply.to_bytes())


class Shares(Stage):
    """R1: boxes for the neighbours, which the server cannot open."""

    def __init__(self, session: Session, reply: bytes) -> None:
        super().__init__(frozenset(session.ids))
        self.session = session
        self.reply = reply
        self._boxes = Boxes(session)

    def receive(self, client: int, message: bytes) -> bool:
        """Whether the message is new.     raises Malformed, StageReplayed, Gone"""
        if self.is_repeat(client, message):
            return False
        self._boxes.check(message)
        self.remember(client, message)
        self._boxes.add(client, message)
        return True

    def close(self) -> Vectors:
        """U2 is fixed.     raises RoundFailed"""
        self.closed = True
        require(self.session, len(self._boxes.owners), "shared")
        return Vectors(self.session, self._boxes)


class Vectors(Stage):
    """R2: masked vectors, added up as they come."""

    def __init__(self, session: Session, boxes: Boxes) -> None:
        super().__init__(boxes.owners)
        self.session = session
        self._boxes = boxes
        self._sum = Tally(session.params)

    def reply(self, client: int) -> bytes:
        """The boxes addressed to one client of U2.     raises Gone"""
        boxes = self._boxes
        if client not in boxes:
            raise Gone(f"client {client} did not share in time", [client])
        head = SharesDown(self.session.bitmap(boxes.owners), ()).to_bytes()
        near = self.session.neighbours(client)
        return head + b"".join(boxes.sealed(owner, client) for owner in near if owner in boxes)

    def receive(self, client: int, message: bytes, digest: bytes = b"") -> bool:
        """Whether the message is new.     raises Malformed, StageReplayed, Gone

        digest: the message's SHA-256, where that is known
        """
        if self.is_repeat(client, message, digest):
            return False
        params = self.session.params
        words = unpack(message, params.encoding.total_length, params.ring_bits)
        self.remember(client, message, digest)
        self._sum.add(client, words)
        return True

    def close(self) -> Agreements:
        """U3 is fixed.     raises RoundFailed"""
        self.closed = True
        require(self.session, len(self._seen), "uploaded")
        return Agreements(self.session, self._boxes, self.senders, self._sum)


class Agreements(Stage):
    """R3a: survivors sign the list of survivors."""

    def __init__(
        self,
        session: Session,
        boxes: Boxes,
        survivors: frozenset[int],
        words: Tally,
    ) -> None:
        super().__init__(survivors)
        self.session = session
        self.survivors = survivors
        self.reply = session.bitmap(survivors)
        self._boxes = boxes
        self._sum = words
        self._signatures: dict[int, bytes] = {}
        # For each survivor, how many of its neighbours must sign yet.
        self._wanting = dict.fromkeys(survivors, session.params.threshold)

    @property
    def ready(self) -> bool:
        """Whether every survivor has enough others to rely on; nobody else need be waited for."""
        enough = len(self._signatures) >= self.session.params.quorum
        return self.complete or (enough and not self._wanting)

    def receive(self, client: int, message: bytes) -> bool:
        """Whether the signature is new and in time.     raises BadSignature, StageReplayed, Gone

        A late one is checked and no more: enough others are handed out, and its sender may reveal.
        """
        late = self.closed and client in self.survivors and client not in self._seen
        if not late and self.is_repeat(client, message):
            return False
        self._check(client, message)
        if late:
            return False
        self.remember(client, message)
        self._signatures[client] = message
        self._count(client)
        return True

    def close(self) -> Reveals:
        """The signatures that are handed out are fixed.     raises RoundFailed"""
        self.closed = True
        require(self.session, len(self._signatures), "signed the survivor list")
        return Reveals(self.session, self._boxes, self.survivors, self._sum, self._signatures)

    def _count(self, signer: int) -> None:
        for neighbour in self.session.neighbours(signer):
            if neighbour in self._wanting:
                self._wanting[neighbour] -= 1
                if self._wanting[neighbour] == 0:
                    del self._wanting[neighbour]

    def _check(self, client: int, message: bytes) -> None:
        statement = self.session.agreement(self._boxes.owners, self.survivors)
        try:
            public = self.session.identities[client]
            verify(public, labels.AGREE, statement, message, f"agreement of client {client}")
        except BadSignature as error:
            raise BadSignature(str(error), [client]) from None
