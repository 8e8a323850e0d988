"""Who has uploaded a model or weights: a tenant builds on its own alone."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "uploads",
        sa.Column("tenant", sa.String(64), primary_key=True),
        sa.Column("digest", sa.LargeBinary, primary_key=True),
    )
    op.create_index("weights_by_digest", "weights", ["digest"])
    # Requests for certificates hold enrolment tokens in clear; who waits asks again.
    op.execute("DELETE FROM enrolments")
