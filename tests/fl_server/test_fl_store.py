"""The store: older and newer databases, PostgreSQL, several workers, files elsewhere."""

from __future__ import annotations

import hashlib
import threading

import numpy as np
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from fl_fleet import MODEL, fleet_of, serving, task_settings
from fl_people import AUTHORITY, subject_of
from fl_world import START, World
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.exc import IntegrityError

from fl_server import errors
from fl_server import messages as wire
from fl_server.access.clients import Clients, StaleCounter
from fl_server.access.tokens import Tokens
from fl_server.http.app import _come_again
from fl_server.rounds import record
from fl_server.rounds.rounds import Rounds
from fl_server.rounds.uploads import Uploads
from fl_server.secagg import labels
from fl_server.secagg.certificate import certify
from fl_server.storage import schema
from fl_server.storage.files import open_files
from fl_server.storage.store import Store
from fl_server.storage.tables import facts, metadata


class Worker:
    """One more worker at a world's database, with a memory of its own."""

    def __init__(self, world: World, database: str) -> None:
        self.store = Store(world.store.folder, database, world.files)
        tokens = Tokens(self.store, world.settings, "admin", "token")
        self.clients = Clients(self.store, world.authority, world.settings, tokens)
        self.rounds = Rounds(self.store, self.clients, world.settings)
        self.uploads = Uploads(self.rounds, self.store)

    def close(self) -> None:
        self.store.close()


def test_a_new_database_has_the_tables_that_are_declared(tmp_path, database, opened):
    store = opened(Store(tmp_path, database))
    with store.begin() as db:
        assert compare_metadata(MigrationContext.configure(db), metadata) == []
    Store(tmp_path, database).close()  # and is opened as it is


def test_a_database_from_before_there_were_versions_is_brought_up_to_date(tmp_path, database):
    url = database.replace("postgresql:", "postgresql+psycopg:") or f"sqlite:///{tmp_path}/old"
    engine, config = create_engine(url), schema._config()
    with engine.begin() as db:
        config.attributes["connection"] = db
        schema.command.upgrade(config, "0001")
        db.execute(text("DROP TABLE alembic_version"))
        row = "INSERT INTO messages (task, round, stage, client, body) VALUES"
        for stage, client in (("share", 1), ("advertise", 9), ("advertise", 2)):
            values = {"stage": stage, "client": client, "body": b"x"}
            db.execute(text(f"{row} ('t', 1, :stage, :client, :body)"), values)
    schema.upgrade(engine)
    with engine.begin() as db:
        assert compare_metadata(MigrationContext.configure(db), metadata) == []
        rows = db.execute(text("SELECT stage, client FROM messages ORDER BY seq")).all()
    assert rows == [("advertise", 2), ("advertise", 9), ("share", 1)]
    engine.dispose()


def test_a_folder_for_files_that_cannot_be_made_is_refused_at_once(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(errors.SettingsError, match=r"--files .*/file/x: Not a directory"):
        open_files(f"{tmp_path}/file/x", tmp_path)


def test_a_database_of_a_newer_server_is_refused_in_one_line(tmp_path, database, opened):
    store = opened(Store(tmp_path, database))
    with store.begin() as db:
        db.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(errors.SettingsError, match="tables of version 9999, this server knows"):
        Store(tmp_path, database)


def test_a_database_whose_version_is_lost_is_refused_in_one_line(tmp_path, database, opened):
    store = opened(Store(tmp_path, database))
    message = "alembic_version has no row, but there is a table audit; put the row back"
    for change in (
        "DELETE FROM alembic_version",
        "DROP TABLE alembic_version",
    ):
        with store.begin() as db:
            db.execute(text(change))
        with pytest.raises(errors.SettingsError, match=message):
            Store(tmp_path, database)
    with store.begin() as db:
        db.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        db.execute(text("INSERT INTO alembic_version VALUES ('0004'), ('0005')"))
    with pytest.raises(errors.SettingsError, match=r"the table alembic_version: .*; want one row"):
        Store(tmp_path, database)


def test_clients_from_before_tenants_were_kept_have_those_of_their_certificates(tmp_path, database):
    url = database.replace("postgresql:", "postgresql+psycopg:") or f"sqlite:///{tmp_path}/old"
    engine, config = create_engine(url), schema._config()
    subject = subject_of(1, bytes(32), tenant="clinic é")
    with engine.begin() as db:
        config.attributes["connection"] = db
        schema.command.upgrade(config, "0004")
        row = "INSERT INTO clients (id, public_key, population, certificate, counter, revoked)"
        certificates = {1: certify(AUTHORITY, subject).to_bytes(), 2: b"", 3: b""}
        for client, certificate in certificates.items():
            values = {"id": client, "key": bytes([client]), "certificate": certificate}
            values |= {"false": False}
            db.execute(text(f"{row} VALUES (:id, :key, 'p', :certificate, 0, :false)"), values)
        row = "INSERT INTO enrolments VALUES (2, 'waits', :message, 0.0)"
        db.execute(text(row), {"message": b"with a token"})
    schema.upgrade(engine)
    with engine.begin() as db:
        found = db.execute(text("SELECT id, tenant FROM clients ORDER BY id")).all()
        assert found == [(1, "clinic é"), (2, "waits"), (3, "")]
        assert db.execute(text("SELECT * FROM enrolments")).all() == []
        assert compare_metadata(MigrationContext.configure(db), metadata) == []
    engine.dispose()


def test_a_url_of_postgres_is_one_of_postgresql(postgres, tmp_path, opened):
    url = postgres.database("short").replace("postgresql:", "postgres:")
    assert opened(Store(tmp_path, url)).is_shared


def test_a_failing_statement_is_told_without_what_was_in_it(tmp_path, database, opened, caplog):
    """Neither in the error's own text nor in the log is a value that was to be kept."""
    store = opened(Store(tmp_path, database))
    twice = facts.insert().values([{"name": "n", "value": "a secret value"}] * 2)
    with pytest.raises(IntegrityError) as caught, store.begin() as db:
        db.execute(twice)
    assert "secret" not in str(caught.value)
    answer = _come_again(None, caught.value)
    assert answer.status_code == 503
    assert "the store failed: " in caplog.text
    for told in ("secret", "INSERT", "Key (name)"):
        assert told not in caplog.text


def test_a_migration_that_fails_leaves_the_database_as_it_was(
    tmp_path, database, monkeypatch, opened
):
    url = database.replace("postgresql:", "postgresql+psycopg:") or f"sqlite:///{tmp_path}/old"
    store = opened(
        Store(tmp_path / "made", database or url)
    )  # its connections begin as the server's do
    with store.begin() as db:
        metadata.drop_all(db)
        db.execute(text("DROP TABLE alembic_version"))
    known = schema.command.upgrade

    def breaks(config, target):
        known(config, target)
        raise RuntimeError("power cut")

    monkeypatch.setattr(schema.command, "upgrade", breaks)
    with pytest.raises(RuntimeError, match="power cut"):
        schema.upgrade(store._engine)
    monkeypatch.undo()
    with store.begin() as db:
        assert inspect(db).get_table_names() == []
    schema.upgrade(store._engine)


def test_one_server_at_a_time_has_a_folder_with_sqlite(tmp_path):
    first = Store(tmp_path)
    first.lock_folder()
    second = Store(tmp_path)
    with pytest.raises(errors.SettingsError, match="in use by another server"):
        second.lock_folder()
    first.close()
    second.lock_folder()
    second.close()


def test_rounds_over_http_are_finished_on_either_database(tmp_path, database):
    with serving(tmp_path, database_url=database) as server, server.operator() as operator:
        operator.create_task("t", MODEL, START, **task_settings(4, rounds=2))
        reports = fleet_of(server, tmp_path, 4).run()
        status = operator.wait("t")
    assert [entry["survivors"] for entry in status["rounds"]] == [4, 4]
    assert all([r.outcome for r in device] == ["done", "done"] for device in reports)


@pytest.mark.parametrize(("count", "shards"), [(4, 1), (6, 2)])
def test_each_message_of_a_round_may_come_to_another_worker(
    tmp_path, postgres, opened, count, shards
):
    database = postgres.database(f"workers{shards}")
    settings = {"min_cohort": 3, "target_cohort": count, "shard_size": count // shards}
    world = opened(World(tmp_path, database, **settings))
    workers = [opened(Worker(world, database)) for _ in range(3)]
    for i in range(count):
        world.join(i)
    turn = iter(range(1000))

    def call(work):
        for _ in range(2):  # and once more elsewhere
            world.rounds = workers[next(turn) % 3].rounds
            answer = work()
        return answer

    world.play(call)
    (entry,) = record.of_task(world.store, "t")
    assert (entry["stage"], entry["shards"], entry["survivors"]) == ("finished", shards, count)
    for worker in workers:
        assert worker.rounds.weights.latest("t").version == 1
        assert np.abs(worker.rounds.weights.values(worker.rounds.weights.latest("t"))).max() > 0.2


def test_parts_of_one_vector_may_come_to_different_workers(tmp_path, postgres, opened):
    from test_fl_uploads import masked_world, part

    database = postgres.database("parts")
    world, session, states = masked_world(tmp_path, database)
    opened(world)
    caller, vector = states[0][0], states[0][1].message
    first, second = (opened(Worker(world, database)) for _ in range(2))
    first.uploads.put(caller, session, part(vector, 0, 20), vector[:20])
    assert second.uploads.offset(caller, session) == 20
    with pytest.raises(errors.WrongOffset):
        second.uploads.put(caller, session, part(vector, 0, 20), vector[:20])
    second.uploads.put(caller, session, part(vector, 20, len(vector)), vector[20:])
    assert first.uploads.offset(caller, session) is None
    assert caller.id in world.rounds.live("t").senders("vector")


def test_a_request_that_one_worker_took_is_a_replay_at_the_other(tmp_path, postgres, opened):
    database = postgres.database("replay")
    world = opened(World(tmp_path, database))
    member, _ = world.enrol(0)
    signed = wire.request_signed("GET", "/x", 7, b"")
    header = f"MS1 {member.id} 7 {member.identity.sign(labels.REQUEST, signed).hex()}"
    first, second = (opened(Worker(world, database)) for _ in range(2))
    assert (
        first.clients.authenticate(header, "GET", "/x", hashlib.sha256().digest()).id == member.id
    )
    with pytest.raises(StaleCounter):
        second.clients.authenticate(header, "GET", "/x", hashlib.sha256().digest())


def test_a_round_that_moves_on_at_one_worker_wakes_the_others(tmp_path, postgres, opened):
    database = postgres.database("bell")
    world = opened(World(tmp_path, database, min_cohort=2, target_cohort=2))
    other = opened(Worker(world, database))
    heard, ready = threading.Event(), threading.Event()

    def ring() -> None:
        (heard if ready.is_set() else ready).set()

    other.store.listen(ring)
    assert ready.wait(10)  # it listens
    world.join(0)
    world.join(1)
    assert heard.wait(10)


@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_files_are_written_whole_read_in_parts_and_removed(tmp_path, kind):
    url = "memory://store/x" if kind == "memory" else str(tmp_path)
    files = open_files(url, tmp_path)
    with pytest.raises(FileNotFoundError):
        files.read("a/b")
    with pytest.raises(FileNotFoundError):
        files.size("a/b")
    files.write("a/b", b"0123456789")
    files.write("a/b", b"abcdefghij")
    assert (files.read("a/b"), files.read("a/b", 2, 5)) == (b"abcdefghij", b"cde")
    assert (files.size("a/b"), files.exists("a/b"), files.exists("a")) == (10, True, False)
    files.remove("a")
    files.remove("a")
    assert not files.exists("a/b")


def test_models_and_vectors_may_lie_in_an_object_store(tmp_path):
    with (
        serving(tmp_path, files_url="memory://mindspan") as server,
        server.operator() as operator,
    ):
        operator.create_task("t", MODEL, START, **task_settings(3, rounds=2))
        reports = fleet_of(server, tmp_path, 3).run()
        status = operator.wait("t")
        assert operator.weights("t").shape == START.shape
    assert [entry["survivors"] for entry in status["rounds"]] == [3, 3]
    assert [[r.outcome for r in device] for device in reports] == [["done"] * 2] * 3
    assert not (tmp_path / "server/blobs").exists()


def test_a_place_for_files_that_is_none_is_refused_in_one_line(tmp_path):
    with pytest.raises(errors.SettingsError, match="files at nowhere://"):
        open_files("nowhere://x", tmp_path)


def test_a_vector_whose_file_is_lost_fails_the_round_and_not_the_server(tmp_path):
    from test_fl_uploads import masked_world

    world, session, states = masked_world(tmp_path)
    caller, state = states[0]
    world.rounds.put(caller, session, "vector", state.message)
    for path in (tmp_path / "vectors").rglob("*"):
        if path.is_file():
            path.unlink()
    world.restart()
    assert world.stages() == ["failed", "advertise"]
