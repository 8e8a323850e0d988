"""The server's last stage: shares come in, secrets are rebuilt, masks come off the sum."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from fl_server.errors import Malformed, RoundFailed, TooFewShares
from fl_server.secagg.encode import Mean, decode
from fl_server.secagg.keys import Exchange, public_of, wipe
from fl_server.secagg.mask import add_masks, pair_key, pair_sign, reduce_ring, self_key
from fl_server.secagg.messages import (
    BAD_SHARE,
    NOTHING,
    SHARE_OF_B,
    SHARE_OF_S,
    Agreement,
    Reveal,
    Signed,
)
from fl_server.secagg.pack import Words
from fl_server.secagg.secrets import commitment
from fl_server.secagg.session import Session
from fl_server.secagg.shamir import combine
from fl_server.secagg.stage import Boxes, Stage
from fl_server.secagg.tally import Tally


@dataclass(frozen=True)
class Total:
    """The integer sum over the survivors, masks removed.

    blamed: those whom evidence names · accusations: (x, y) where x says that y sent it a bad share,
    which is one client's word against another's · alone: in a session without masks, each
    survivor's update
    """

    session: Session
    words: Words
    survivors: tuple[int, ...]
    blamed: tuple[int, ...] = ()
    accusations: tuple[tuple[int, int], ...] = ()
    alone: tuple[Mean, ...] = ()

    def means(self) -> tuple[Mean, ...]:
        """The weighted mean of the survivors, or each of them.

        raises ChecksumMismatch, RoundFailed
        """
        if self.alone:
            return self.alone
        return (self.mean(),)

    def mean(self) -> Mean:
        """The weighted mean of the survivors.     raises ChecksumMismatch, RoundFailed"""
        return decode(self.words, len(self.survivors), self.session.params, self.session.id)


class Reveals(Stage):
    """R3b: shares come in until every secret that is needed can be rebuilt."""

    def __init__(
        self,
        session: Session,
        boxes: Boxes,
        survivors: frozenset[int],
        words: Tally,
        signatures: dict[int, bytes],
    ) -> None:
        super().__init__(survivors)
        self.session = session
        self.survivors = survivors
        self._caught: set[int] = set()
        self._accusations: set[tuple[int, int]] = set()
        self._boxes = boxes
        self._sum = words
        signed = (Signed(c, s) for c, s in sorted(signatures.items()))
        self.reply = Agreement(tuple(signed)).to_bytes()
        # For each client of U2, the valid shares of the one secret that is wanted of it.
        self._revealed: dict[int, list[bytes]] = {owner: [] for owner in boxes.owners}

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
        if self.is_repeat(client, message):
            return False
        neighbours = self.session.neighbours(client)
        shares = Reveal.from_bytes(message).shares
        if len(shares) != len(neighbours):
            raise Malformed(f"{len(shares)} shares for {len(neighbours)} neighbours")
        self.remember(client, message)
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
        if not self.session.params.is_masked:
            return self._open_total()
        masks: list[tuple[bytes, int]] = []
        for owner in sorted(self._boxes.owners):
            secret = self._rebuild(owner)
            remove = self._own_mask if owner in self.survivors else self._pair_masks
            masks += remove(owner, secret)
            wipe([secret])
        words = self._sum.words
        add_masks(words, masks)
        reduce_ring(words, self.session.params.ring_bits)
        survivors = tuple(sorted(self.survivors))
        return Total(self.session, words, survivors, self.blamed, self.accusations)

    def _open_total(self) -> Total:
        """The updates of a session without masks.     raises RoundFailed"""
        means, caught = self._sum.honest(self.session)
        blamed = tuple(sorted({*caught, *self.blamed}))
        if not means:
            raise RoundFailed("no client sent an update that is one", blamed)
        each = tuple(means.values())
        return Total(
            self.session, self._sum.words, tuple(means), blamed, self.accusations, alone=each
        )

    def _wanted(self, owner: int) -> int:
        if owner not in self._boxes:
            return NOTHING
        return SHARE_OF_B if owner in self.survivors else SHARE_OF_S

    def _matches(self, owner: int, holder: int, kind: int, share: bytes) -> bool:
        sealed = self._boxes.digests(owner, holder)
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
        if commitment(self.session.id, b) != self._boxes.commitment(owner):
            raise RoundFailed(f"client {owner} shared a secret it did not commit to", [owner])
        return [(self_key(b, self.session.id, owner, self.session.params.ring_bits), -1)]

    def _pair_masks(self, owner: int, mask_secret: bytearray) -> list[tuple[bytes, int]]:
        """The masks that a vanished client shares with survivors, which nothing cancels."""
        if public_of(mask_secret) != self.session.adverts[owner].mask_key:
            raise RoundFailed(f"client {owner} shared a key that is not its own", [owner])
        session, bits = self.session, self.session.params.ring_bits
        masks, exchange = [], Exchange(mask_secret)
        for survivor in sorted(self.survivors & set(session.neighbours(owner))):
            shared = exchange.shared(session.adverts[survivor].mask_key)
            key = pair_key(shared, session.id, owner, survivor, bits)
            masks.append((key, -pair_sign(survivor, owner)))
        return masks
