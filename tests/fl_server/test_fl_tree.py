"""Noise in trees: what it costs, how errors cancel, and who may be in which leaf."""

from __future__ import annotations

import math
import shutil

import dp_accounting
import numpy as np
import pytest
from fl_fleet import MODEL, fleet_of, serving, task_settings
from fl_people import seeded
from fl_world import START, World

from fl_server import task_checks
from fl_server.errors import LedgerDamaged, SettingsError
from fl_server.messages import IDLE, OFFER, CheckIn
from fl_server.privacy import Privacy, gaussian
from fl_server.rounds import record
from fl_server.secagg.encode import Mean
from fl_server.secagg.params import complete_graph
from fl_server.storage.forest import Forest
from fl_server.storage.ledger import Ledger
from fl_server.task_settings import TaskSettings
from fl_server.tree import Tree, depth, last_leaves, leaf_noise

TREE = {"noise": "tree", "noise_multiplier": 8.0, "clip_norm": 0.5, "clip_value": 64.0}


@pytest.mark.parametrize("rounds", [1, 2, 3, 7, 8, 9, 64, 100])
def test_no_leaf_is_under_more_nodes_than_are_accounted_for(rounds):
    """By brute force: the nodes that any sum up to a round is made of, and the leaves of each."""
    used = set()
    for leaves in range(1, rounds + 1):
        start = 0
        for last in last_leaves(leaves):
            used.add((start, last))
            start = last + 1
        assert start == leaves
    # A leaf ends one node at the most, so that its noise is no other node's.
    assert len({last for _, last in used}) == len(used)
    above = [sum(a <= leaf <= b for a, b in used) for leaf in range(rounds)]
    assert max(above) == depth(rounds)


def test_the_noise_of_leaves_adds_up_to_that_of_their_nodes():
    keys = [bytes([n]) * 16 for n in range(13)]
    total = np.zeros(50)
    for leaves in range(1, 14):
        total += leaf_noise(keys[:leaves], 50)
        expected = sum(gaussian(keys[last], 50) for last in last_leaves(leaves))
        np.testing.assert_allclose(total, expected, atol=1e-9)
    # Up to round 8 it is one node's, where independent noise would be eight.
    assert len(last_leaves(8)) == 1


@pytest.mark.parametrize(
    ("rounds", "released"), [(8, 8), (8, 5), (8, 24), (8, 20), (1, 6), (64, 9)]
)
def test_the_account_is_that_of_the_library(rounds, released):
    noise = 6.0
    whole, rest = divmod(released, rounds)
    zero_in_its_place = dp_accounting.NeighboringRelation.REPLACE_SPECIAL
    accountant = dp_accounting.rdp.RdpAccountant(neighboring_relation=zero_in_its_place)
    if whole:
        event = dp_accounting.SingleEpochTreeAggregationDpEvent(noise, rounds)
        accountant.compose(event, whole)
    if rest:
        accountant.compose(dp_accounting.SingleEpochTreeAggregationDpEvent(noise, rest))
    spent = Tree(noise, 1e-5, rounds=rounds).spent([noise] * released)
    renyi = accountant.get_epsilon(1e-5)
    assert 0.75 * renyi <= spent <= renyi
    # The exact one of a device in the costliest leaf of each tree.
    nodes = whole * depth(rounds) + depth(rest)
    assert spent == pytest.approx(Privacy(1.0, 1e-5).spent([noise] * nodes), rel=1e-9)


def test_a_device_that_may_be_in_few_trees_loses_by_few():
    noises = [5.0] * 20
    two = Tree(5.0, 1e-5, rounds=4, participations=2).spent(noises)
    assert two == pytest.approx(Privacy(1.0, 1e-5).spent([5.0] * 2 * depth(4)), rel=1e-9)
    assert two < Tree(5.0, 1e-5, rounds=4, participations=9).spent(noises)
    assert Tree(5.0, 1e-5, rounds=4).spent([]) == 0


def test_a_node_has_the_deviation_that_the_account_is_for():
    task = TaskSettings.checked(name="t", **TREE, tree_rounds=8)
    encoding = task.encoding(20_000)
    params, tree = complete_graph(20, encoding), task.privacy
    mean = Mean(np.full(20_000, 0.25), 20, 20, 0.0, 0, 0, 20, 0)
    leaf = tree.unit * leaf_noise([bytes(16)], 20_000)
    found = tree.with_noise(mean, params, leaf).delta
    node = Privacy(8.0, 1e-5).deviation(encoding, 20)
    assert found.std() == pytest.approx(node, rel=0.02)
    assert found.mean() == pytest.approx(0.25, abs=4 * node / math.sqrt(20_000))


def world_of(folder, **changes: object) -> World:
    settings = TREE | {"tree_rounds": 2, "rounds": 9} | changes
    return World(folder, min_cohort=3, target_cohort=3, join_s=60, **settings)


def play(world: World, *who: int) -> None:
    world.joined.clear()
    for i in who:
        world.join(i)
    world.play()


def offered(world: World, i: int) -> bool:
    _, caller = world.enrol(i)
    reply = world.rounds.check_in(caller, CheckIn("", 0, b""))
    assert reply is None or reply.kind in (OFFER, IDLE)
    return reply is not None and reply.kind == OFFER


def noises(world: World) -> list[float]:
    return Ledger(world.store.ledger_path("t")).noises()


def test_a_device_is_in_one_round_of_a_tree_and_in_no_more_trees_than_it_may(tmp_path):
    world = world_of(tmp_path, participations=2)
    play(world, 0, 1, 2)
    assert not offered(world, 0)
    world.restart()
    assert not offered(world, 0)
    assert offered(world, 3)
    play(world, 3, 4, 5)
    assert offered(world, 0)  # another tree
    play(world, 0, 1, 2)
    play(world, 3, 4, 6)
    assert [offered(world, i) for i in (0, 3, 5, 6, 7)] == [False, False, True, True, True]
    assert world.stages()[:4] == ["finished"] * 4
    spent = world.rounds.spent(world.rounds.tasks.get("t"))
    nodes = 2 * depth(2)  # of each of two trees
    assert spent["epsilon"] == pytest.approx(Privacy(1.0, 1e-5).spent([8.0] * nodes), rel=1e-9)
    world.close()


def test_devices_over_http_are_in_one_round_of_each_tree(tmp_path):
    settings = task_settings(3, rounds=3, tree_rounds=2, **TREE)
    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("t", MODEL, START, **settings)
        fleet = fleet_of(server, tmp_path, 6).run()
        status, weights = operator.status("t"), operator.weights("t")
    assert status["state"] == "finished"
    assert [entry["stage"] for entry in status["rounds"]] == ["finished"] * 3
    done = [[report.round for report in reports if report.outcome == "done"] for reports in fleet]
    assert sorted(number for numbers in done for number in numbers) == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    # The third is of another tree.
    assert [len({1, 2} & set(numbers)) for numbers in done] == [1] * 6
    assert not {"loss", "correct", "examples", "within_clip"} & set(status["rounds"][0])
    epsilon = TaskSettings.checked(name="t", **settings).privacy.spent([8.0] * 3)
    assert status["privacy"] == {"epsilon": epsilon, "delta": 1e-5, "rounds": 3}
    # No update is longer than 0.5; what is in the weights is the noise of two nodes.
    assert np.linalg.norm(weights) > 2


def test_weights_have_the_noise_of_nodes_and_not_of_rounds(tmp_path):
    """After both rounds of a tree what is in the weights is the noise of one node."""
    world = world_of(tmp_path)
    play(world, 0, 1, 2)
    play(world, 3, 4, 5)
    trees = Forest(world.store.ledger_path("t").with_name("t.trees"), 2)._read()
    keys, encoding = [leaf.key for leaf in trees.leaves], world_task(world).encoding(16)
    weights = world.rounds.weights
    found = [weights.values(version).astype(float) for version in weights.versions("t")]
    node = Privacy(8.0, 1e-5).deviation(encoding, 3)
    np.testing.assert_allclose(found[1], 0.125 + node * gaussian(keys[0], 16), atol=0.01)
    np.testing.assert_allclose(found[2], 0.25 + node * gaussian(keys[1], 16), atol=0.01)
    assert [leaf.who for leaf in trees.leaves] == [(1, 2, 3), (4, 5, 6)]
    mode = world.store.ledger_path("t").with_name("t.trees").stat().st_mode
    assert mode & 0o077 == 0
    world.close()


def world_task(world: World) -> TaskSettings:
    return world.rounds.tasks.get("t").settings


def test_a_database_that_is_put_back_gives_no_leaf_and_no_noise_a_second_time(tmp_path):
    world = world_of(tmp_path / "a", tree_rounds=4)
    world.close()
    saved = shutil.copytree(tmp_path / "a", tmp_path / "b")
    world = Again(tmp_path / "a")
    play(world, 0, 1, 2)
    world.close()
    shutil.copytree(tmp_path / "a/privacy", saved / "privacy")
    again = Again(saved)
    for i in (0, 1, 2):
        again.enrol(i)
    assert [offered(again, i) for i in (0, 2, 3)] == [False, False, True]
    play(again, 3, 4, 5)
    assert noises(again) == [8.0, 8.0]
    leaves = Forest(again.store.ledger_path("t").with_name("t.trees"), 4)._read().leaves
    assert [leaf.who for leaf in leaves] == [(1, 2, 3), (4, 5, 6)]
    assert leaves[0].key != leaves[1].key
    again.close()


class Again(World):
    """The world of a folder that has its task already."""

    def __init__(self, folder) -> None:
        self.seed = str(folder)  # no two processes draw the same
        super().__init__(folder, min_cohort=2)

    def restart(self) -> None:
        super().restart()
        self.rounds.create_task = lambda *_: None


def test_what_was_never_released_is_drawn_anew(tmp_path):
    forest, random = Forest(tmp_path / "t.trees", 4), seeded("forest")
    forest.grow(forest.at(0), [3, 1], random)
    first = forest.at(1).leaves
    assert first[0].who == (1, 3)
    forest.grow(forest.at(1), [4], random)  # and its line never comes into the ledger
    lost = forest.at(2).leaves[1].key
    forest.grow(forest.at(1), [5], random)
    assert forest.at(2).leaves[0] == first[0]
    assert (forest.at(2).leaves[1].who, forest.at(2).leaves[1].key != lost) == ((5,), True)


def test_trees_that_do_not_fit_the_ledger_or_are_damaged_end_the_task(tmp_path):
    forest, random = Forest(tmp_path / "t.trees", 2), seeded("forest")
    with pytest.raises(LedgerDamaged, match="No such file"):
        forest.at(1)
    forest.grow(forest.at(0), [1], random)
    for released in (2, 3, 9):
        with pytest.raises(LedgerDamaged, match="leaf 1 of tree 0, the ledger has"):
            forest.at(released)
    whole = (tmp_path / "t.trees").read_bytes()
    for at in range(0, len(whole), 7):
        (tmp_path / "t.trees").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(LedgerDamaged):
            forest.at(1)
    world = world_of(tmp_path / "w")
    play(world, 0, 1, 2)
    world.store.ledger_path("t").with_name("t.trees").unlink()
    assert not offered(world, 3)
    assert noises(world) == [8.0]
    world.close()


def test_a_budget_for_so_many_leaves_ends_the_task(tmp_path):
    cost = [Tree(8.0, 1e-5, rounds=2).spent([8.0] * n) for n in (2, 3)]
    world = world_of(tmp_path, epsilon=sum(cost) / 2)
    play(world, 0, 1, 2)
    play(world, 3, 4, 5)
    assert world.rounds.tasks.get("t").state == "finished"
    assert [entry["stage"] for entry in record.of_task(world.store, "t")] == ["finished"] * 2
    assert not offered(world, 6)
    world.close()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"clip_quantile": 0.5}, "clip_quantile is 0.5, want None with noise in trees"),
        ({"max_staleness": 3}, "max_staleness is 3, want 0 with noise in trees"),
        ({"kept": 0.5}, "kept is 0.5, want 1 with noise in trees"),
        ({"rotate": True}, "rotate is True, want False with noise in trees"),
        ({"tree_rounds": 0}, "setting tree_rounds is 0, want greater"),
        ({"noise": "central", "tree_rounds": 4}, "tree_rounds or participations is set, want no"),
        ({"clip_value": 1.0}, r"clip_value is 1.0, want \d+.\d+ for that noise"),
        ({"epsilon": 0.1}, "epsilon is 0.1, and one round spends"),
        ({"noise_multiplier": 0.0}, "want a noise_multiplier above 0 with it|tree_rounds"),
    ],
)
def test_settings_that_do_not_go_with_trees_are_refused(given, words):
    with pytest.raises(SettingsError, match=words):
        task_checks.check(TaskSettings.checked(name="t", **(TREE | given)), 1000)
