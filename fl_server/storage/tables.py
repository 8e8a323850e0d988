"""The tables of the database; `migrations` says how an older one becomes this."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

metadata = MetaData()

clients = Table(
    "clients",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("public_key", LargeBinary, unique=True, nullable=False),
    # Empty for clients from before it was kept who had no certificate then.
    Column("tenant", String(64), nullable=False, server_default=""),
    Column("population", String(64), nullable=False),
    Column("certificate", LargeBinary, nullable=False),
    Column("counter", BigInteger, nullable=False, default=0),
    Column("revoked", Boolean, nullable=False, default=False),
)
tasks = Table(
    "tasks",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("settings", Text, nullable=False),
    Column("model", LargeBinary, nullable=False),
    Column("state", String(16), nullable=False),
    Column("error", Text, nullable=False, default=""),
)
weights = Table(
    "weights",
    metadata,
    Column("task", String(64), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("digest", LargeBinary, nullable=False),
    Column("round", Integer, nullable=False),
    Index("weights_by_digest", "digest"),
)
moments = Table(  # what a task's strategy keeps beside these weights
    "moments",
    metadata,
    Column("task", String(64), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("digest", LargeBinary, nullable=False),
)
rounds = Table(
    "rounds",
    metadata,
    Column("task", String(64), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("stage", String(16), nullable=False),
    Column("deadline", Float, nullable=False),
    Column("stage_started", Float, nullable=False, server_default="0"),
    # How long the stages took that are over, as JSON.
    Column("seconds", Text, nullable=False, server_default="{}"),
    Column("opened_at", Float, nullable=False),
    Column("model_digest", LargeBinary, nullable=False),
    Column("weights", LargeBinary, nullable=False),
    Column("server_nonce", LargeBinary, nullable=False),
    Column("revocations", LargeBinary, nullable=False, default=b""),
    Column("session", String(64), nullable=False, default=""),
    Column("summary", Text, nullable=False, default="{}"),
    Index("rounds_by_session", "session"),
    Index("rounds_by_stage", "stage"),
)
messages = Table(
    "messages",
    metadata,
    Column("task", String(64), primary_key=True),
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("stage", String(16), primary_key=True),
    Column("client", Integer, primary_key=True, autoincrement=False),
    # In the order in which the round took them.
    Column("seq", Integer, nullable=False, server_default="0"),
    # A vector lies in a file; its row holds its digest.
    Column("body", LargeBinary, nullable=False),
)
parts = Table(  # of vectors on their way; the bytes lie in files
    "parts",
    metadata,
    Column("task", String(64), primary_key=True),
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("client", Integer, primary_key=True, autoincrement=False),
    Column("first", BigInteger, primary_key=True, autoincrement=False),
    Column("size", BigInteger, nullable=False),
    # Of the whole vector, and of this part.
    Column("digest", LargeBinary, nullable=False),
    Column("own_digest", LargeBinary, nullable=False),
)
transcript = Table(
    "transcript",
    metadata,
    Column("task", String(64), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("round", Integer, nullable=False),
    Column("line", Text, nullable=False),
)
facts = Table(
    "facts",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)
tokens = Table(
    "tokens",
    metadata,
    Column("name", String(64), primary_key=True),
    # Of the secret: whoever reads the database learns no token.
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("scopes", Text, nullable=False),
    Column("tenant", String(64), nullable=False),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float, nullable=True),
    # The token that it was made with, empty for one of the server's folder.
    Column("maker", String(64), nullable=False, server_default=""),
    Column("revoked", Boolean, nullable=False),
)
audit = Table(
    "audit",
    metadata,
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("line", Text, nullable=False),
)
uploads = Table(  # what operators have sent, by the tenant of their token
    "uploads",
    metadata,
    Column("tenant", String(64), primary_key=True),
    Column("digest", LargeBinary, primary_key=True),
)
enrolments = Table(  # that wait for a certificate from an authority apart from the server
    "enrolments",
    metadata,
    Column("client", Integer, primary_key=True, autoincrement=False),
    Column("tenant", String(64), nullable=False),
    # What the device has signed, without its token (messages.Asked).
    Column("message", LargeBinary, nullable=False),
    Column("asked_at", Float, nullable=False),
)
