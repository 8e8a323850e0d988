"""The tables of servers before there were versions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "clients",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("public_key", sa.LargeBinary, unique=True, nullable=False),
        sa.Column("population", sa.String(64), nullable=False),
        sa.Column("certificate", sa.LargeBinary, nullable=False),
        sa.Column("counter", sa.BigInteger, nullable=False),
        sa.Column("revoked", sa.Boolean, nullable=False),
    )
    op.create_table(
        "tasks",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("model", sa.LargeBinary, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("error", sa.Text, nullable=False),
    )
    for name in ("weights", "moments"):
        rounds = [sa.Column("round", sa.Integer, nullable=False)] if name == "weights" else []
        op.create_table(
            name,
            sa.Column("task", sa.String(64), primary_key=True),
            sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
            sa.Column("digest", sa.LargeBinary, nullable=False),
            *rounds,
        )
    op.create_table(
        "rounds",
        sa.Column("task", sa.String(64), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("stage", sa.String(16), nullable=False),
        sa.Column("deadline", sa.Float, nullable=False),
        sa.Column("opened_at", sa.Float, nullable=False),
        sa.Column("model_digest", sa.LargeBinary, nullable=False),
        sa.Column("weights", sa.LargeBinary, nullable=False),
        sa.Column("server_nonce", sa.LargeBinary, nullable=False),
        sa.Column("revocations", sa.LargeBinary, nullable=False),
        sa.Column("session", sa.String(64), nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
    )
    op.create_table(
        "messages",
        sa.Column("task", sa.String(64), primary_key=True),
        sa.Column("round", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("stage", sa.String(16), primary_key=True),
        sa.Column("client", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "transcript",
        sa.Column("task", sa.String(64), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("round", sa.Integer, nullable=False),
        sa.Column("line", sa.Text, nullable=False),
    )
    op.create_table(
        "facts",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
