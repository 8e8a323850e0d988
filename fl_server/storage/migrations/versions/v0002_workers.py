"""Rounds that several workers share: messages have an order, vectors come in parts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_STAGES = ("advertise", "share", "vector", "agree", "reveal")


def upgrade() -> None:
    started = sa.Column("stage_started", sa.Float, nullable=False, server_default="0")
    op.add_column("rounds", started)
    seconds = sa.Column("seconds", sa.Text, nullable=False, server_default="{}")
    op.add_column("rounds", seconds)
    op.create_index("rounds_by_session", "rounds", ["session"])
    op.create_index("rounds_by_stage", "rounds", ["stage"])
    op.add_column("messages", sa.Column("seq", sa.Integer, nullable=False, server_default="0"))
    _number_messages(op.get_bind())
    op.create_table(
        "parts",
        sa.Column("task", sa.String(64), primary_key=True),
        sa.Column("round", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("client", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("first", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("own_digest", sa.LargeBinary, nullable=False),
    )


def _number_messages(db: sa.Connection) -> None:
    """Older rounds were rebuilt stage by stage, and by client in each."""
    columns: list[sa.ColumnClause[object]] = [
        sa.column(name) for name in ("task", "round", "stage", "client", "seq")
    ]
    table = sa.table("messages", *columns)
    rows = db.execute(sa.select(table)).all()
    count: dict[tuple[str, int], int] = {}
    for row in sorted(rows, key=lambda r: (r.task, r.round, _STAGES.index(r.stage), r.client)):
        place = row.task, row.round
        count[place] = count.get(place, 0) + 1
        keys = zip(("task", "round", "stage", "client"), row[:4], strict=True)
        this = sa.and_(*(table.c[name] == value for name, value in keys))
        db.execute(table.update().where(this).values(seq=count[place]))
