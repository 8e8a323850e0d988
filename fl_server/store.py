"""What outlasts the process: tables in a database and files beside it, in one folder.

What has been acknowledged to anybody has been committed here before.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Engine,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
)
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import SQLAlchemyError

from fl_server.console import read_word
from fl_server.errors import NotFound, SettingsError

_tables = MetaData()

clients = Table(
    "clients",
    _tables,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("public_key", LargeBinary, unique=True, nullable=False),
    Column("population", String(64), nullable=False),
    Column("certificate", LargeBinary, nullable=False),
    Column("counter", BigInteger, nullable=False, default=0),
    Column("revoked", Boolean, nullable=False, default=False),
)
tasks = Table(
    "tasks",
    _tables,
    Column("name", String(64), primary_key=True),
    Column("settings", Text, nullable=False),
    Column("model", LargeBinary, nullable=False),
    Column("state", String(16), nullable=False),
    Column("error", Text, nullable=False, default=""),
)
weights = Table(
    "weights",
    _tables,
    Column("task", String(64), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("digest", LargeBinary, nullable=False),
    Column("round", Integer, nullable=False),
)
moments = Table(  # what a task's strategy keeps beside these weights
    "moments",
    _tables,
    Column("task", String(64), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("digest", LargeBinary, nullable=False),
)
rounds = Table(
    "rounds",
    _tables,
    Column("task", String(64), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("stage", String(16), nullable=False),
    Column("deadline", Float, nullable=False),
    Column("opened_at", Float, nullable=False),
    Column("model_digest", LargeBinary, nullable=False),
    Column("weights", LargeBinary, nullable=False),
    Column("server_nonce", LargeBinary, nullable=False),
    Column("revocations", LargeBinary, nullable=False, default=b""),
    Column("session", String(64), nullable=False, default=""),
    Column("summary", Text, nullable=False, default="{}"),
)
messages = Table(
    "messages",
    _tables,
    Column("task", String(64), primary_key=True),
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("stage", String(16), primary_key=True),
    Column("client", Integer, primary_key=True, autoincrement=False),
    # A vector lies in a file; its row holds nothing.
    Column("body", LargeBinary, nullable=False),
)
transcript = Table(
    "transcript",
    _tables,
    Column("task", String(64), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("round", Integer, nullable=False),
    Column("line", Text, nullable=False),
)
facts = Table(
    "facts",
    _tables,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)


class Store:
    """The tables and the files of one folder."""

    def __init__(self, folder: Path, database_url: str = "") -> None:
        # Vectors, tokens and keys: nobody else on the machine is to read them.
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        self.folder = folder
        url = database_url or f"sqlite:///{folder / 'state.sqlite'}"
        self._engine = _engine(url)
        if self._engine.dialect.name == "sqlite":
            if not database_url:
                # What SQLite puts beside its file gets the mode of the file.
                (folder / "state.sqlite").touch(mode=0o600)
                (folder / "state.sqlite").chmod(0o600)
            event.listen(self._engine, "connect", _be_durable)
        with _one_line():
            _tables.create_all(self._engine)

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """A transaction: committed at the end, rolled back on an error."""
        with self._engine.begin() as connection:
            yield connection

    def close(self) -> None:
        self._engine.dispose()

    def put_blob(self, data: bytes) -> bytes:
        """Keep bytes under their SHA-256, which comes out."""
        digest = hashlib.sha256(data).digest()
        path = self._blob(digest)
        if not path.exists():
            write_file(path, data)
        return digest

    def blob_path(self, digest: bytes) -> Path:
        """The file of a digest.     raises NotFound"""
        path = self._blob(digest)
        if not path.exists():
            raise NotFound(f"nothing is kept under {digest.hex()}")
        return path

    def get_blob(self, digest: bytes) -> bytes:
        return self.blob_path(digest).read_bytes()

    def vector_path(self, task: str, number: int, client: int) -> Path:
        return self.folder / "vectors" / task / str(number) / str(client)

    def ledger_path(self, task: str) -> Path:
        return self.folder / "privacy" / task

    def _blob(self, digest: bytes) -> Path:
        return self.folder / "blobs" / digest.hex()

    def secret(self, name: str, given: str, random_hex: str) -> str:
        """A token: the one given, else the one in the folder's file, else a new one, kept there."""
        if given:
            return given
        path = self.folder / name
        if not path.exists():
            write_file(path, random_hex.encode())
        try:
            token = read_word(path)
        except ValueError:
            token = ""
        if not token or not token.isascii() or not token.isprintable():
            raise SettingsError(f"{path}: not a token, want printable ASCII")
        return token


@contextmanager
def _one_line() -> Iterator[None]:
    """What is wrong with a database, without its address, which may hold a password."""
    try:
        yield
    except ImportError as error:
        raise SettingsError(f"the database's driver is not installed: {error}") from None
    except (SQLAlchemyError, ValueError) as error:
        cause = getattr(error, "orig", None) or error
        raise SettingsError(f"the database cannot be used: {cause}") from None


def _engine(url: str) -> Engine:
    with _one_line():
        return create_engine(url)


def write_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write all or nothing, and have it on the disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)  # the name, too


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk when this returns."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _be_durable(connection: DBAPIConnection, _: object) -> None:
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=10000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
