"""The cohort and the session id that binds it: both sides compute these from the same bytes."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from fl_server.errors import BadKey, KeysNotDistinct, Malformed
from fl_server.secagg import graph, labels
from fl_server.secagg.keys import Identity, check_canonical, check_point, hashed, verify
from fl_server.secagg.messages import DIGEST_SIZE, MOST_CLIENTS, Advert, CohortReply, Context
from fl_server.secagg.params import Params


@dataclass(frozen=True)
class Session:
    """One round of one cohort. Ids are sorted."""

    context: Context
    params: Params
    adverts: dict[int, Advert]
    identities: dict[int, bytes]
    id: bytes

    @cached_property
    def ids(self) -> tuple[int, ...]:
        return tuple(sorted(self.adverts))

    @cached_property
    def _neighbours(self) -> dict[int, tuple[int, ...]]:
        nonces = {client: advert.nonce for client, advert in self.adverts.items()}
        return graph.neighbours(nonces, self.params)

    def neighbours(self, client: int) -> tuple[int, ...]:
        """The ids that `client` shares with, in order."""
        return self._neighbours[client]

    def share_x(self, owner: int, holder: int) -> int:
        """The x of the share that `holder` gets of `owner`'s secrets: its place from 1."""
        return bisect_left(self.neighbours(owner), holder) + 1

    def bitmap(self, clients: Iterable[int]) -> bytes:
        """Bit i, lowest first, is set if the i-th id is one of `clients`."""
        return bitmap(self.ids, clients)

    def members(self, bitmap: bytes) -> frozenset[int]:
        """The ids of a bitmap.     raises Malformed"""
        bits = int.from_bytes(bitmap, "little")
        if len(bitmap) != -(-len(self.ids) // 8) or bits >> len(self.ids):
            raise Malformed(f"a bitmap of {len(bitmap)} bytes for {len(self.ids)} clients")
        return frozenset(client for i, client in enumerate(self.ids) if bits >> i & 1)

    def agreement(self, shared: Iterable[int], survivors: Iterable[int]) -> bytes:
        """What every survivor signs: S, H(U2), H(U3)."""
        return (
            self.id
            + hashed(labels.SHARED_SET, self.id, self.bitmap(shared))
            + hashed(labels.SURVIVOR_SET, self.id, self.bitmap(survivors))
        )

    def share_digest(self, owner: int, holder: int, kind: int, share: bytes | bytearray) -> bytes:
        """16 bytes that commit an owner to one share. A share is random: they tell nothing."""
        place = owner.to_bytes(4, "little") + holder.to_bytes(4, "little") + bytes([kind])
        return hashed(labels.SHARE_DIGEST, self.id, place, share)[:DIGEST_SIZE]


def bitmap(ids: Sequence[int], clients: Iterable[int]) -> bytes:
    """Bit i, lowest first, is set if ids[i] is one of `clients`."""
    members = set(clients)
    bits = sum(1 << i for i, client in enumerate(ids) if client in members)
    return bits.to_bytes(-(-len(ids) // 8), "little")


def open_session(reply: CohortReply) -> Session:
    """The session of a cohort     raises Malformed, BadKey, KeysNotDistinct

    Certificates are paired with adverts and their keys taken; whether they are valid is checked by
    whoever has an authority's key to check with.
    """
    ids = [advert.client for advert in reply.adverts]
    if ids != sorted(set(ids)) or not 2 <= len(ids) <= MOST_CLIENTS:
        raise Malformed(f"{len(ids)} adverts, which must be sorted, of 2 or more distinct clients")
    if [c.subject.client for c in reply.certificates] != ids:
        raise Malformed("the certificates are not those of the adverts, in their order")
    params = reply.params
    if params.clients != len(ids):
        raise Malformed(f"{len(ids)} adverts, the parameters are of {params.clients} clients")
    graph.check_shape(params)
    keys = [key for advert in reply.adverts for key in (advert.share_key, advert.mask_key)]
    for key in keys:
        check_canonical(key, "the cohort")
    if len(set(keys)) != len(keys):
        raise KeysNotDistinct("two of the advertised keys are the same")
    return Session(
        context=reply.context,
        params=reply.params,
        adverts=dict(zip(ids, reply.adverts, strict=True)),
        identities={c.subject.client: c.subject.public_key for c in reply.certificates},
        id=session_id(reply),
    )


def session_id(reply: CohortReply) -> bytes:
    """S: 32 bytes over everything that both sides must agree on. Every field has its length."""
    context = reply.context
    tenant, task = context.tenant.encode(), context.task.encode()
    digest = hashlib.sha256(labels.SESSION)
    for part in (
        len(tenant).to_bytes(4, "little") + tenant,
        len(task).to_bytes(4, "little") + task,
        context.round.to_bytes(8, "little"),
        reply.server_nonce,
        context.model,
        reply.params.to_bytes(),
        merkle_root([advert.to_bytes() for advert in reply.adverts]),
    ):
        digest.update(part)
    return digest.digest()


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """The root of a binary tree; the left half is the largest power of two below the whole."""
    if len(leaves) == 1:
        return hashlib.sha256(labels.MERKLE_LEAF + leaves[0]).digest()
    half = 1 << (len(leaves) - 1).bit_length() - 1
    left, right = merkle_root(leaves[:half]), merkle_root(leaves[half:])
    return hashlib.sha256(labels.MERKLE_NODE + left + right).digest()


def sign_advert(
    identity: Identity,
    client: int,
    context: Context,
    share_key: bytes,
    mask_key: bytes,
    nonce: bytes,
) -> Advert:
    """The advert of two fresh public keys for one round."""
    unsigned = Advert(client, share_key, mask_key, nonce, bytes(64))
    signature = identity.sign(labels.ADVERT, _advert_signed(context, unsigned))
    return Advert(client, share_key, mask_key, nonce, signature)


def check_advert(public: bytes, context: Context, advert: Advert) -> None:
    """Nothing, if the advert is signed for this task and round.     raises BadSignature"""
    signed = _advert_signed(context, advert)
    verify(public, labels.ADVERT, signed, advert.signature, f"advert of client {advert.client}")


def check_keys(advert: Advert, taken: Collection[bytes]) -> None:
    """Nothing, if the cohort can use both keys beside those that are taken.

    raises BadKey, KeysNotDistinct
    """
    who = advert.client
    for key in (advert.share_key, advert.mask_key):
        try:
            check_point(key, f"advert of client {who}")
        except BadKey as error:
            raise BadKey(str(error), [who]) from None
        if key in taken:
            raise KeysNotDistinct(f"client {who} advertised a key that another did", [who])
    if advert.share_key == advert.mask_key:
        raise KeysNotDistinct(f"client {who} advertised one key for both uses", [who])


def _advert_signed(context: Context, advert: Advert) -> bytes:
    task = context.task.encode()
    place = len(task).to_bytes(4, "little") + task + context.round.to_bytes(8, "little")
    return place + advert.to_bytes()[:-64]
