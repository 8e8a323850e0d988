"""The account of what was spent: damage is seen, ends its task, and leaves all others alone."""

from __future__ import annotations

import numpy as np
import pytest
from fl_world import START, World

from fl_server.errors import FlError, LedgerDamaged
from fl_server.messages import CheckIn, Offer
from fl_server.privacy import Privacy
from fl_server.storage.ledger import Ledger
from fl_server.storage.tables import facts
from fl_server.task_settings import TaskSettings

NOISES = [8.0, 8.0, 0.5, 44.25]
PRIVATE = {"noise_multiplier": 8.0, "clip_norm": 0.5, "clip_value": 16.0}


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(tmp_path / "privacy/t")
    for number, noise in enumerate(NOISES):
        made.add(noise, f"round {number} {bytes([number]).hex() * 32}")
    return made


def test_every_cut_of_a_ledger_is_seen(ledger):
    whole = ledger._path.read_bytes()
    assert ledger.noises(len(NOISES)) == NOISES
    for size in range(len(whole)):
        ledger._path.write_bytes(whole[:size])
        with pytest.raises(LedgerDamaged, match=r"privacy/t: (line \d is damaged|\d releases)"):
            ledger.noises(len(NOISES))


def test_every_byte_that_changes_and_every_line_that_moves_is_seen(ledger):
    whole = ledger._path.read_bytes()
    for at in range(len(whole)):
        for other in (whole[at] ^ 1, ord("4"), 0xFF):
            if other != whole[at]:
                ledger._path.write_bytes(whole[:at] + bytes([other]) + whole[at + 1 :])
                with pytest.raises(LedgerDamaged):
                    ledger.noises()
    lines = whole.splitlines(keepends=True)
    for moved in (
        lines[1:],
        lines[:1] + lines[2:],
        [lines[1], lines[0], *lines[2:]],
        lines[:1] * 2,
    ):
        ledger._path.write_bytes(b"".join(moved))
        with pytest.raises(LedgerDamaged):
            ledger.noises()


def test_lines_that_were_written_without_a_hash_count_and_get_one(tmp_path):
    path = tmp_path / "privacy/t"
    path.parent.mkdir()
    path.write_text("".join(f"8.0 round {n} {'ab' * 32}\n" for n in (1, 2)))
    ledger = Ledger(path)
    with pytest.raises(LedgerDamaged, match="line 1 is damaged"):
        ledger.noises()
    last = ledger.adopt()
    assert ledger.adopt() == last
    assert ledger.noises(2, last) == [8.0, 8.0]
    ledger.add(4.0, f"round 3 {'cd' * 32}")
    assert ledger.noises(2, last) == [8.0, 8.0, 4.0]
    assert ledger.noises() == [8.0, 8.0, 4.0]
    lines = path.read_text().splitlines()
    assert len({len(line) for line in lines}) == 1
    for cut in (
        "44",
        "44.0",
        "44.0 round 1",
        "nan round 1 " + "ab" * 32,
        "8.0 round 1 " + "ab" * 32,
    ):
        path.write_text(cut)  # the last of these has no end
        with pytest.raises(LedgerDamaged, match="line 1 is damaged"):
            ledger.noises()


def two_tasks(folder, **settings) -> World:
    world = World(folder, min_cohort=3, target_cohort=3, join_s=60, rounds=9, **settings)
    for i in range(3):
        world.join(i)
    other = TaskSettings(name="other", min_cohort=2, target_cohort=9, join_s=60)
    world.rounds.create_task(other, world.digest, START + 1)
    return world


def test_a_damaged_ledger_ends_its_task_before_more_is_released(tmp_path):
    world = two_tasks(tmp_path, **PRIVATE)
    path = world.store.ledger_path("t")
    path.parent.mkdir()
    path.write_text("44")
    world.play()
    task = world.rounds.tasks.get("t")
    assert task.state == "failed"
    assert "privacy/t: line 1 is damaged" in task.error
    assert world.stages() == ["failed"]
    assert world.rounds.weights.latest("t").version == 0
    assert world.rounds.spent(task) is None
    world.now += 60
    assert world.rounds.tick() == world.now + 60
    world.restart()
    assert world.rounds.tasks.get("other").state == "running"
    world.close()


def test_releases_that_the_database_knows_of_are_never_forgotten(tmp_path):
    world = two_tasks(tmp_path, **PRIVATE)
    world.play()
    assert world.stages() == ["finished", "advertise"]
    spent = world.rounds.spent(world.rounds.tasks.get("t"))
    assert spent["epsilon"] == Privacy(8.0, 1e-5).spent([8.0])
    world.store.ledger_path("t").unlink()
    world.rounds.begin_anew("the authority has another key")
    task = world.rounds.tasks.get("t")
    assert task.state == "failed"
    assert task.error.endswith("privacy/t: 0 releases, the database knows of 1")
    assert world.rounds.live("other").number == 2
    world.close()


def test_an_account_that_was_stripped_or_made_anew_is_refused_also_after_a_start(tmp_path):
    world = two_tasks(tmp_path, **PRIVATE)
    world.play()
    path = world.store.ledger_path("t")
    whole = path.read_text()
    stripped = " ".join(whole.split()[:4]) + "\n"
    path.unlink()
    Ledger(path).add(1000.0, " ".join(whole.split()[1:4]))
    for other in (stripped, path.read_text()):
        path.write_text(other)
        world.rounds.adopt_ledgers()
        assert path.read_text() == other
        with world.store.read() as db, pytest.raises(LedgerDamaged, match=r"damaged|no line has"):
            world.rounds._desk.account.overspent(db, world.rounds.tasks.get("t"))
    with world.store.begin() as db:  # as an older server left it
        db.execute(facts.delete().where(facts.c.name.like("ledger %")))
    path.write_text(stripped)
    world.rounds.adopt_ledgers()
    assert path.read_text() == whole
    with world.store.read() as db:
        assert world.rounds._desk.account.overspent(db, world.rounds.tasks.get("t")) == ""
    world.close()


def test_a_task_that_breaks_keeps_no_other_from_its_deadline(tmp_path, caplog):
    world = two_tasks(tmp_path)
    weights = tmp_path / "blobs" / world.rounds.weights.latest("t").digest.hex()
    away, asked = weights.with_suffix(".away"), []

    def call(work):
        if world.stages() == ["reveal"] and weights.exists():
            weights.rename(away)
        asked.append(work)
        return work()

    with pytest.raises(FlError, match="nothing is kept under"):
        world.play(call)
    assert world.stages() == ["reveal"]
    _, caller = world.enrol(20)
    reply = world.rounds.check_in(caller, CheckIn("", 0, b""))
    assert Offer.from_bytes(reply.body).context.task == "other"
    world.now += 61
    before = world.rounds.live("other").deadline
    world.rounds.tick()
    assert world.rounds.live("other").deadline > before
    assert "task t: nothing is kept under" in caplog.text
    away.rename(weights)
    world.now += 61
    world.rounds.tick()
    assert world.stages() == ["reveal"]  # it has its whole time again
    asked[-1]()
    assert world.stages()[0] == "finished"
    np.testing.assert_allclose(
        world.rounds.weights.values(world.rounds.weights.latest("t")), 0.25, atol=1e-4
    )
    world.close()
