"""Whose clients, models and weights are; no enrolment token is kept."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

# Where it begins in a certificate, behind its length: serial, client, key, and two times.
_TENANT = 8 + 4 + 32 + 8 + 8 + 4


def upgrade() -> None:
    op.create_table(
        "uploads",
        sa.Column("tenant", sa.String(64), primary_key=True),
        sa.Column("digest", sa.LargeBinary, primary_key=True),
    )
    op.create_index("weights_by_digest", "weights", ["digest"])
    tenant = sa.Column("tenant", sa.String(64), nullable=False, server_default="")
    op.add_column("clients", tenant)
    _tell_tenants(op.get_bind())
    # Requests for certificates hold enrolment tokens in clear; who waits asks again.
    op.execute("DELETE FROM enrolments")


def _tell_tenants(db: sa.Connection) -> None:
    """A client's is in its certificate, or in its request for one."""
    clients = sa.table("clients", sa.column("id"), sa.column("tenant"), sa.column("certificate"))
    waiting = sa.table("enrolments", sa.column("client"), sa.column("tenant"))
    found = {row.client: row.tenant for row in db.execute(sa.select(waiting))}
    for row in db.execute(sa.select(clients.c.id, clients.c.certificate)):
        if row.certificate:
            end = _TENANT + int.from_bytes(row.certificate[_TENANT - 4 : _TENANT], "little")
            found[row.id] = row.certificate[_TENANT:end].decode()
    for client, tenant in found.items():
        db.execute(clients.update().where(clients.c.id == client).values(tenant=tenant))
