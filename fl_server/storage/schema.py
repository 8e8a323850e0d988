"""The version of the database's tables: an older database is brought up to date when it is opened,
a newer one is refused."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, inspect, text

from fl_server.errors import SettingsError

# Servers before there were versions made these tables.
_FIRST = "0001"
# Tables that came with later ones; rows say which of these a database has.
_LATER = {"parts", "tokens", "audit", "enrolments", "uploads"}
# Of PostgreSQL's advisory lock: workers that start together migrate one after the other.
_LOCK = 0x6D696E64


def upgrade(engine: Engine) -> None:
    """Have today's tables in the database, or what it had before.     raises SettingsError"""
    config = _config()
    newest = ScriptDirectory.from_config(config).get_current_head()
    with engine.connect() as connection:
        if _version(connection) == newest:
            return
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
        else:
            begin_sqlite(connection)
        found = _version(connection)
        if found == newest:
            return
        _check_known(config, found)
        config.attributes["connection"] = connection
        if found is None and inspect(connection).has_table("clients"):
            _check_first(connection)
            command.stamp(config, _FIRST)
        command.upgrade(config, "head")


def begin_sqlite(connection: Connection) -> None:
    """Whoever may write waits here: a reader that turns writer could only be sent away."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    return config


def _version(connection: Connection) -> str | None:
    try:
        return MigrationContext.configure(connection).get_current_revision()
    except CommandError as error:
        raise SettingsError(f"the table alembic_version: {error}; want one row") from None


def _check_first(connection: Connection) -> None:
    """Nothing, if tables without a version are those of the first.     raises SettingsError"""
    later = set(inspect(connection).get_table_names()) & _LATER
    if later:
        raise SettingsError(
            "the database does not say which version its tables have: alembic_version has no row, "
            f"but there is a table {min(later)}; put the row back, or a backup"
        )


def _check_known(config: Config, found: str | None) -> None:
    known = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    if found is not None and found not in known:
        raise SettingsError(
            f"the database has tables of version {found}, this server knows {known[-1]} to "
            f"{known[0]}; a newer mindspan made it"
        )
