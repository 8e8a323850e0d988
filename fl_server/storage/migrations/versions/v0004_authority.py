"""Requests for certificates that wait for an authority apart from the server."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "enrolments",
        sa.Column("client", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("message", sa.LargeBinary, nullable=False),
        sa.Column("asked_at", sa.Float, nullable=False),
    )
