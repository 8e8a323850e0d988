"""By which token a token was made; of older ones nobody knows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    maker = sa.Column("maker", sa.String(64), nullable=False, server_default="")
    op.add_column("tokens", maker)
