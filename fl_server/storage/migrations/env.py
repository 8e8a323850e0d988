"""Run by Alembic, with the connection that `fl_server.storage.schema` hands over."""

from __future__ import annotations

from alembic import context

from fl_server.storage.tables import metadata

connection = context.config.attributes["connection"]
# SQLite changes columns by copying a table; the caller's transaction holds all steps.
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
context.run_migrations()
