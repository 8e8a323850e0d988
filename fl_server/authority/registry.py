"""What the server keeps of an authority that lies apart from it: its newest key, the handovers that
lead there, its list of who is revoked, and who waits for a certificate."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, delete, select, update

from fl_server import messages as wire
from fl_server.authority.handover import Handover, follow, parse_chain
from fl_server.errors import BadCertificate, RoundFailed
from fl_server.secagg import labels
from fl_server.secagg.certificate import Certificate, RevocationList, check_revocations
from fl_server.secagg.keys import verify
from fl_server.storage.store import Store
from fl_server.storage.tables import clients, enrolments, facts

_CHAIN, _REVOCATIONS = "handovers", "revocations"
# So many requests are told, and so many certificates sent, at a time.
BATCH = 100
# Databases take some ten thousand values with a statement.
_SOME = 1000


class Registry:
    """pinned: the key that the server was started with; the chain of handovers begins there"""

    def __init__(self, store: Store, pinned: bytes) -> None:
        self._store = store
        self._pinned = pinned

    def public(self, within: Connection | None = None) -> bytes:
        """The authority's newest key."""
        return follow(self._pinned, parse_chain(self.chain(within)))

    def chain(self, within: Connection | None = None) -> bytes:
        """All handovers, one after the other."""
        return self._fact(_CHAIN, within)

    def revocations(self, within: Connection | None = None) -> RevocationList:
        """The authority's newest list.     raises RoundFailed"""
        kept = self._fact(_REVOCATIONS, within)
        if not kept:
            raise RoundFailed("the authority has handed in no list of who is revoked: ca sign")
        return RevocationList.from_bytes(kept)

    def publish(self, chain: bytes, revocations: bytes) -> bool:
        """Take what an authority hands in; whether its key is another one now.

        raises Malformed, BadCertificate
        """
        links = parse_chain(chain)
        newest = follow(self._pinned, links)
        listed = RevocationList.from_bytes(revocations)
        with self._store.begin() as db:
            self._store.lock(db, "authority")
            before = self.public(db)
            if newest != before and not _leads(before, newest, links):
                raise BadCertificate("the handovers do not lead on from the authority's key")
            kept = self._fact(_REVOCATIONS, db)
            least = RevocationList.from_bytes(kept).revoked.number if kept else 0
            revoked = check_revocations(newest, listed, least)
            self._keep(db, _CHAIN, chain)
            self._keep(db, _REVOCATIONS, revocations)
            every = sorted(revoked)
            for first in range(0, len(every), _SOME):
                these = clients.c.id.in_(every[first : first + _SOME])
                db.execute(update(clients).where(these).values(revoked=True))
            if newest != before:
                # Nobody is in a cohort under two authorities: all devices enrol anew.
                db.execute(update(clients).values(certificate=b""))
        return newest != before

    def ask(self, db: Connection, client: int, tenant: str, asked: wire.Asked, now: float) -> None:
        """Have a device wait for its certificate, in the caller's transaction."""
        self.forget(db, client)
        row = {"client": client, "tenant": tenant, "message": asked.to_bytes(), "asked_at": now}
        db.execute(enrolments.insert().values(**row))

    def forget(self, db: Connection, client: int) -> None:
        """Have a device wait no longer, in the caller's transaction."""
        db.execute(delete(enrolments).where(enrolments.c.client == client))

    def requests(self, after: int = -1, most: int = BATCH) -> dict[str, Any]:
        """The first who wait of those numbered above `after`, who was revoked here, and the key and
        the list of the authority that are known here."""
        query = select(enrolments).where(enrolments.c.client > after)
        with self._store.read() as db:
            rows = db.execute(query.order_by(enrolments.c.client).limit(most)).all()
            revoked = db.scalars(select(clients.c.id).where(clients.c.revoked)).all()
            kept = self._fact(_REVOCATIONS, db)
            number = RevocationList.from_bytes(kept).revoked.number if kept else 0
            public = self.public(db).hex()
        waiting = [
            {"client": row.client, "tenant": row.tenant, "message": row.message.hex()}
            for row in rows
        ]
        known = {"public": public, "revocation_list": number}
        return {"requests": waiting, "revoked": sorted(revoked), **known}

    def answer(self, certificates: list[bytes], refused: list[int]) -> list[int]:
        """Take certificates, each checked, of the clients that come out; those refused wait no
        longer.

        raises Malformed, BadSignature, BadCertificate
        """
        certified: list[int] = []
        with self._store.begin() as db:
            public = self.public(db)
            for data in certificates:
                certificate = Certificate.from_bytes(data)
                subject, who = certificate.subject, f"certificate of {certificate.subject.client}"
                verify(public, labels.CERTIFICATE, subject.to_bytes(), certificate.signature, who)
                this = (clients.c.id == subject.client) & (
                    clients.c.public_key == subject.public_key
                )
                done = db.execute(update(clients).where(this).values(certificate=data))
                if not done.rowcount:
                    raise BadCertificate(f"{who}: no client of this server", [subject.client])
                certified.append(subject.client)
            over = enrolments.c.client.in_([*certified, *refused])
            db.execute(delete(enrolments).where(over))
        return certified

    def _fact(self, name: str, within: Connection | None) -> bytes:
        with self._store.read(within) as db:
            return bytes.fromhex(db.scalar(select(facts.c.value).where(facts.c.name == name)) or "")

    def _keep(self, db: Connection, name: str, value: bytes) -> None:
        db.execute(delete(facts).where(facts.c.name == name))
        db.execute(facts.insert().values(name=name, value=value.hex()))


def _leads(before: bytes, newest: bytes, links: list[Handover]) -> bool:
    return follow(before, links) == newest
