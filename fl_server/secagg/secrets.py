"""What a client keeps secret in a round, and what it makes of that: shares for its neighbours, of
which it gets theirs, and the mask of its vector."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NoReturn

from fl_server.errors import SealBroken
from fl_server.secagg import labels
from fl_server.secagg.keys import Exchange, RandomBytes, hashed, wipe
from fl_server.secagg.mask import add_masks, pair_key, pair_sign, reduce_ring, self_key
from fl_server.secagg.messages import SHARE_OF_B, SHARE_OF_S, SealedShares, SharesUp
from fl_server.secagg.pack import Words, pack
from fl_server.secagg.seal import open_box, seal
from fl_server.secagg.session import Session
from fl_server.secagg.shamir import SECRET_SIZE, split


@dataclass(repr=False)
class Secrets:
    """All that must be erased after the reveal, or when the client gives up. They are neither shown
    nor kept anywhere: there is no text of them, and no pickle."""

    share_secret: bytearray
    mask_secret: bytearray
    b: bytearray
    shares: dict[int, tuple[bytearray, bytearray]] = field(default_factory=dict)
    wiped: bool = False

    def __reduce__(self) -> NoReturn:
        raise TypeError("the secrets of a round are not kept")

    def wipe(self) -> None:
        self.wiped = True
        wipe([self.share_secret, self.mask_secret, self.b])
        for pair in self.shares.values():
            wipe(pair)
        self.shares.clear()


def share(secrets: Secrets, session: Session, me: int, random: RandomBytes) -> SharesUp:
    """Split both secrets, box the shares for each neighbour, and commit to all of them."""
    params, neighbours = session.params, session.neighbours(me)
    random_size = SECRET_SIZE * (params.threshold - 1)
    of_s, of_b = (
        split(secret, params.threshold, len(neighbours), random(random_size))
        for secret in (secrets.mask_secret, secrets.b)
    )
    sealed, exchange = [], Exchange(secrets.share_secret)
    for holder, share_s, share_b in zip(neighbours, of_s, of_b, strict=True):
        shared = exchange.shared(session.adverts[holder].share_key)
        sealed.append(
            SealedShares(
                seal(shared, session.id, me, holder, bytes(share_s + share_b)),
                session.share_digest(me, holder, SHARE_OF_S, share_s),
                session.share_digest(me, holder, SHARE_OF_B, share_b),
            )
        )
    wipe([*of_s, *of_b])
    return SharesUp(session.id, commitment(session.id, secrets.b), tuple(sealed))


def commitment(session: bytes, b: bytes | bytearray) -> bytes:
    """What a client sends ahead of its secret b, and the server checks when b is rebuilt."""
    return hashed(labels.COMMITMENT, session, b)


def open_shares(
    secrets: Secrets, session: Session, me: int, sent: Iterable[tuple[int, SealedShares]]
) -> int:
    """Keep the shares that are what their senders committed to; how many came out right."""
    exchange = Exchange(secrets.share_secret)
    for sender, sealed in sent:
        secret = exchange.shared(session.adverts[sender].share_key)
        pair = _open_one(secret, session, sender, me, sealed)
        if pair is not None:
            secrets.shares[sender] = pair
    return len(secrets.shares)


def _open_one(
    secret: bytes, session: Session, sender: int, me: int, sealed: SealedShares
) -> tuple[bytearray, bytearray] | None:
    """Both shares, or None if they are not what the sender committed to."""
    try:
        of_s, of_b = open_box(secret, session.id, sender, me, sealed.box)
    except SealBroken:
        return None
    x = session.share_x(sender, me)
    honest = (
        of_s[0] == of_b[0] == x
        and session.share_digest(sender, me, SHARE_OF_S, of_s) == sealed.digest_of_s
        and session.share_digest(sender, me, SHARE_OF_B, of_b) == sealed.digest_of_b
    )
    return (of_s, of_b) if honest else None


def mask(
    secrets: Secrets, session: Session, me: int, words: Words, shared: frozenset[int]
) -> bytes:
    """y = enc(x) + PRG(b) + sum of the pair masks, bit-packed; words are changed in place."""
    bits = session.params.ring_bits
    if not session.params.is_masked:
        return pack(words, bits)
    masks = [(self_key(secrets.b, session.id, me, bits), 1)]
    exchange = Exchange(secrets.mask_secret)
    for other in sorted(shared & set(session.neighbours(me))):
        secret = exchange.shared(session.adverts[other].mask_key)
        masks.append((pair_key(secret, session.id, me, other, bits), pair_sign(me, other)))
    add_masks(words, masks)
    return pack(reduce_ring(words, bits), bits)
