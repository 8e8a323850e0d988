"""What outlasts the process: tables in a database, and files in a folder or an object store.

What has been acknowledged to anybody has been committed here before.
"""

from __future__ import annotations

import fcntl
import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Connection, Engine, create_engine, event, func, select
from sqlalchemy.engine import make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import SQLAlchemyError

from fl_server.console import read_word
from fl_server.errors import FlError, NotFound, SettingsError
from fl_server.storage import schema
from fl_server.storage.files import Folder, open_files, sync_folder, write_file

__all__ = ["Store", "sync_folder", "write_file"]

_CHANNEL = "mindspan"
_LISTENS_S = 1.0


class Store:
    """The tables and the files of one server, however many workers it has.

    database_url: else SQLite in the folder · files_url: else the folder itself
    """

    def __init__(self, folder: Path, database_url: str = "", files_url: str = "") -> None:
        # Vectors, tokens and keys: nobody else on the machine is to read them.
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        self.folder = folder
        self.files = open_files(files_url, folder)
        self._engine = _engine(database_url or f"sqlite:///{folder / 'state.sqlite'}")
        # What is read is what is committed when each statement begins, in both databases: SQLite
        # begins no transaction unless it is told to (`_be_durable`).
        reads = {"isolation_level": "AUTOCOMMIT"} if self.is_shared else {}
        self._reader = self._engine.execution_options(**reads) if reads else self._engine
        # Who writes to SQLite waits here: its own way to wait is to sleep and to look again.
        self._writing = threading.Lock()
        self._lock: IO[bytes] | None = None
        self._closed = threading.Event()
        if not self.is_shared:
            if not database_url:
                # What SQLite puts beside its file gets the mode of the file.
                (folder / "state.sqlite").touch(mode=0o600)
                (folder / "state.sqlite").chmod(0o600)
            event.listen(self._engine, "connect", _be_durable)
        try:
            with _one_line():
                schema.upgrade(self._engine)
        except BaseException:
            self._engine.dispose()
            raise

    @property
    def is_shared(self) -> bool:
        """Whether workers may share the database: SQLite is for one process."""
        return self._engine.dialect.name != "sqlite"

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """A transaction: committed at the end, rolled back on an error."""
        if self.is_shared:
            with self._engine.begin() as connection:
                yield connection
            return
        with self._writing, self._engine.begin() as connection:
            schema.begin_sqlite(connection)
            yield connection

    @contextmanager
    def read(self, within: Connection | None = None) -> Iterator[Connection]:
        """To read, without waiting for anybody, what is committed when each statement begins; or
        within a transaction that is open."""
        with nullcontext(within) if within is not None else self._reading() as connection:
            yield connection

    def close(self) -> None:
        self._closed.set()
        self._engine.dispose()
        if self._lock is not None:
            self._lock.close()

    def lock_folder(self) -> None:
        """Keep the folder until `close`: two servers on one SQLite file would not see each other.

        raises SettingsError
        """
        if self.is_shared or self._lock is not None:
            return
        lock = (self.folder / "lock").open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise SettingsError(f"{self.folder} is in use by another server") from None
        self._lock = lock

    def lock(self, db: Connection, what: str) -> None:
        """Wait for others who hold this, and hold it to the end of the transaction."""
        if self.is_shared:  # else there is one who writes
            db.execute(select(func.pg_advisory_xact_lock(func.hashtext(what))))

    def notify(self, db: Connection) -> None:
        """Tell all workers, once this transaction is committed, that a round has moved on."""
        if self.is_shared:
            db.execute(select(func.pg_notify(_CHANNEL, "")))

    def listen(self, heard: Callable[[], None]) -> None:
        """Call back on each `notify` of any worker, from a thread, until the store is closed."""
        if self.is_shared:
            arguments = self._engine.url, heard, self._closed
            threading.Thread(target=_listen, args=arguments, daemon=True).start()

    def put_blob(self, data: bytes) -> bytes:
        """Keep bytes under their SHA-256, which comes out."""
        digest = hashlib.sha256(data).digest()
        if not self.files.exists(_blob(digest)):
            self.files.write(_blob(digest), data)
        return digest

    def blob_size(self, digest: bytes) -> int:
        """The bytes under a digest.     raises NotFound"""
        try:
            return self.files.size(_blob(digest))
        except FileNotFoundError:
            raise NotFound(f"nothing is kept under {digest.hex()}") from None

    def get_blob(self, digest: bytes, first: int = 0, end: int | None = None) -> bytes:
        """Bytes `first` to `end` of what is kept under a digest.     raises NotFound"""
        try:
            return self.files.read(_blob(digest), first, end)
        except FileNotFoundError:
            raise NotFound(f"nothing is kept under {digest.hex()}") from None

    def blob_path(self, digest: bytes) -> Path | None:
        """The blob as a file on this machine, None where it lies elsewhere."""
        return self.files.path(_blob(digest)) if isinstance(self.files, Folder) else None

    def ledger_path(self, task: str) -> Path:
        return self.folder / "privacy" / task

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
    def _reading(self) -> Iterator[Connection]:
        with self._reader.connect() as connection:
            yield connection


def _blob(digest: bytes) -> str:
    return f"blobs/{digest.hex()}"


@contextmanager
def _one_line() -> Iterator[None]:
    """What is wrong with a database, without its address, which may hold a password."""
    try:
        yield
    except FlError:
        raise
    except ImportError as error:
        extra = "pip install 'mindspan[postgresql]'"
        raise SettingsError(f"the database's driver is not installed ({extra}): {error}") from None
    except (SQLAlchemyError, ValueError) as error:
        cause = getattr(error, "orig", None) or error
        raise SettingsError(f"the database cannot be used: {cause}") from None


def _engine(url: str) -> Engine:
    with _one_line():
        found = make_url(url)
        options: dict[str, Any] = {}
        if found.get_backend_name() in ("postgresql", "postgres"):
            found = found.set(drivername="postgresql+psycopg")
            options = {"pool_size": 8, "max_overflow": 24}
        elif found.get_backend_name() != "sqlite":
            kind = found.get_backend_name()
            raise SettingsError(f"the database cannot be used: {kind} is not sqlite or postgresql")
        return create_engine(found, hide_parameters=True, **options)


def _be_durable(connection: DBAPIConnection, _: object) -> None:
    connection.isolation_level = None  # `begin` begins; sqlite3 itself would begin too late
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=10000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _listen(url: Any, heard: Callable[[], None], closed: threading.Event) -> None:
    import psycopg

    plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
    while not closed.is_set():
        try:
            with psycopg.connect(plain, autocommit=True) as connection:
                connection.execute(f"LISTEN {_CHANNEL}")
                heard()  # whatever was missed
                while not closed.is_set():
                    for _ in connection.notifies(timeout=_LISTENS_S):
                        heard()
        except psycopg.Error:
            closed.wait(_LISTENS_S)  # the database is away
