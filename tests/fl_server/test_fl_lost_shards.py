"""A shard that has lost too many devices: decided once, the same in every worker, whoever dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from fl_fleet import LENGTH
from fl_world import World
from sqlalchemy import event

from fl_server.access.clients import Clients
from fl_server.access.tokens import Tokens
from fl_server.authority.enrolment import Authority
from fl_server.errors import Gone
from fl_server.rounds import record
from fl_server.rounds.rounds import Rounds
from fl_server.secagg.encode import Update
from fl_server.settings import Settings
from fl_server.storage.store import Store

UPDATE = Update(np.full(LENGTH, 0.25, np.float32), 1, 0.5, 1, 2)
# By stage: the one before it, and what a client does with the reply to that.
STEPS = {
    "share": ("advertise", lambda world, state, reply: state.receive_cohort(reply, world.now)),
    "vector": ("share", lambda world, state, reply: state.receive_shares(reply, UPDATE)),
    "agree": ("vector", lambda world, state, reply: state.receive_survivors(reply)),
    "reveal": ("agree", lambda world, state, reply: state.receive_agreements(reply)),
}


class Shards:
    """Two shards of five devices."""

    def __init__(self, world: World) -> None:
        for i in range(10):
            world.join(i)
        self.world = world
        self.states = {caller.id: (caller, state) for caller, state in world.joined.items()}
        cohort = world.rounds.live("t").session
        self.session = cohort.id.hex()
        self.whole, self.short = (shard.ids for shard in cohort.sessions)

    def step(self, stage: str, clients) -> None:
        before, step = STEPS[stage]
        for i in clients:
            caller, state = self.states[i]
            reply = self.world.rounds.get(caller, self.session, before)
            self.states[i] = caller, step(self.world, state, reply)

    def put(self, stage: str, clients) -> None:
        for i in clients:
            caller, state = self.states[i]
            self.world.rounds.put(caller, self.session, stage, state.message)

    def short_of(self, ended: str) -> None:
        """Go on until two of the second shard are missing in a stage, which is due to end."""
        for stage in STEPS:
            self.step(stage, [*self.whole, *self.short])
            if stage == ended:
                break
            self.put(stage, [*self.whole, *self.short])
        self.put(ended, [*self.whole, *self.short[:3]])
        self.world.now += 1000


def worker(folder: Path, database: str, now: float) -> Rounds:
    """What another process of the server has."""
    store, settings = Store(folder, database), Settings(folder, clock=lambda: now)
    tokens = Tokens(store, settings, "admin", "token")
    return Rounds(store, Clients(store, Authority(bytes(32)), settings, tokens), settings)


def end_stage_and_die(folder: Path, database: str, now: float, where: str) -> None:
    """Killed in front of a statement, in front of the commit, or behind it."""
    rounds = worker(folder, database, now)

    def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def at(_connection, _cursor, statement: str, *_: object) -> None:
        if statement.startswith(where):
            die()

    event.listen(rounds._store._engine, "before_cursor_execute", at)
    if where == "COMMIT":
        event.listen(rounds._store._engine, "commit", die)
    rounds.on_change(die)
    rounds.tick()


@pytest.mark.parametrize("ended", ["share", "vector", "agree"])
def test_a_shard_that_is_lost_stays_lost_in_every_worker_whatever_comes_late(tmp_path, ended):
    world = World(tmp_path, min_cohort=10, target_cohort=10, shard_size=5)
    shards = Shards(world)
    shards.short_of(ended)
    world.rounds.tick()
    lost = {at: str(error) for at, error in world.rounds.live("t").state.lost.items()}
    assert list(lost) == [1]

    for i in shards.short[3:]:
        caller, state = shards.states[i]
        if ended == "agree":  # a late signature is checked and not kept
            world.rounds.put(caller, shards.session, ended, state.message)
        else:
            with pytest.raises(Gone):
                world.rounds.put(caller, shards.session, ended, state.message)
        other = Rounds(world.store, world.clients, world.settings)
        for rounds in (world.rounds, other):
            live = rounds.live("t")
            assert {at: str(error) for at, error in live.state.lost.items()} == lost
            assert live.senders(ended) == {*shards.whole, *shards.short[:3]}
            with pytest.raises(Gone, match="lost"):
                rounds.get(caller, shards.session, ended)
            if ended == "share":
                with pytest.raises(Gone, match="lost"):
                    rounds.vector_place(shards.session, i)
    world.restart()
    assert list(world.rounds.live("t").state.lost) == [1]
    world.close()


@pytest.mark.parametrize("where", ["UPDATE rounds", "INSERT INTO transcript", "COMMIT", "answer"])
def test_a_worker_killed_while_it_gives_a_shard_up_leaves_the_others_one_answer(
    tmp_path, postgres, opened, where
):
    database = postgres.database("shards")
    world = opened(World(tmp_path, database, min_cohort=10, target_cohort=10, shard_size=5))
    shards = Shards(world)
    shards.short_of("vector")
    place = tmp_path, database, world.now
    dies = multiprocessing.get_context("spawn").Process(
        target=end_stage_and_die, args=(*place, where)
    )
    dies.start()
    dies.join(60)
    assert dies.exitcode == -signal.SIGKILL

    decided = where == "answer"
    other = worker(*place)
    opened(other._store)
    for rounds in (world.rounds, other):
        live = rounds.live("t")
        assert live.stage == ("agree" if decided else "vector")
        assert list(live.state.lost) == ([1] if decided else [])
    # Nothing is decided until it can be seen: then a late vector counts, and later ones do not.
    late, later = shards.short[3:]
    if decided:
        with pytest.raises(Gone):
            shards.put("vector", [late])
    else:
        shards.put("vector", [late])
        other.tick()
    with pytest.raises(Gone):
        shards.put("vector", [later])
    survivors = [*shards.whole, *([] if decided else [*shards.short[:3], late])]
    for rounds in (world.rounds, other):
        assert rounds.live("t").state.senders == frozenset()
        assert list(rounds.live("t").state.lost) == ([1] if decided else [])
    for stage in ("agree", "reveal"):
        shards.step(stage, survivors)
        shards.put(stage, survivors)
    (entry,) = record.of_task(world.store, "t")
    assert (entry["stage"], entry["survivors"]) == ("finished", len(survivors))
    mean = world.rounds.weights.values(other.weights.latest("t"))
    np.testing.assert_allclose(mean, 0.25, atol=1e-4)
