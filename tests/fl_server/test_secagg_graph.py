"""Large cohorts: shards whose sums are added, and one session on a sparse graph."""

from __future__ import annotations

from dataclasses import replace
from math import comb, log2

import numpy as np
import pytest
from fl_people import (
    AUTHORITY,
    CONTEXT,
    NOW,
    REVOCATIONS,
    Table,
    encoding_of,
    identity_of,
    members,
    seeded,
    updates_of,
)

from fl_server import errors, task_checks
from fl_server.secagg import labels
from fl_server.secagg.client import join
from fl_server.secagg.cohort import Layout, ShardedStage, split
from fl_server.secagg.encode import encode
from fl_server.secagg.graph import check_sparse, least_sparse, ring, security_bits, sparse_graph
from fl_server.secagg.messages import Agreement, CohortReply, Signed
from fl_server.secagg.params import complete_graph
from fl_server.secagg.policy import Memory, Policy
from fl_server.secagg.server import Adverts
from fl_server.task_settings import TaskSettings


class Crowd:
    """Clients of a round in shards; each keeps its own randomness."""

    def __init__(self, count: int, layout: Layout) -> None:
        people, self.encoding = members(count), encoding_of(5, max_weight=3)
        self.updates = updates_of(people, self.encoding)
        adverts = Adverts(CONTEXT, self.encoding, AUTHORITY.public)
        self.draws = {m.id: [] for m in people}
        self.states = {}
        for m in people:
            arguments = m, CONTEXT, self.encoding, Policy(2), Memory(), self.source(m.id)
            self.states[m.id] = join(*arguments)
            adverts.receive(self.states[m.id].message, m.certificate, NOW)
        self.stage = split(adverts, seeded("nonce")(32), REVOCATIONS, layout)

    def source(self, i: int):
        stream = seeded(i)

        def draw(size: int) -> bytes:
            self.draws[i].append(stream(size))
            return self.draws[i][-1]

        return draw

    def step(self, take, without=(), change=lambda i, message: message) -> ShardedStage:
        """Every client answers the stage; those `without` vanish."""
        for i in list(self.states):
            if i in without or self.cohort.shard_of(i) in self.stage.lost:
                del self.states[i]
                continue
            self.states[i] = take(i, self.states[i], self.stage.reply(i))
            self.stage.receive(i, change(i, self.states[i].message))
        return self.stage

    @property
    def cohort(self):
        return self.stage.cohort

    def play(self, without=(), change=lambda i, message: message):
        self.step(lambda i, state, got: state.receive_cohort(got, NOW))
        self.stage = self.stage.advance()
        self.step(lambda i, state, got: state.receive_shares(got, self.updates[i]), without, change)
        self.stage = self.stage.advance()
        self.step(lambda i, state, got: state.receive_survivors(got))
        assert self.stage.complete
        self.stage = self.stage.advance()
        self.step(lambda i, state, got: state.receive_agreements(got))
        assert self.stage.complete
        return self.stage.close()

    def encoded(self, i: int) -> np.ndarray:
        session = self.cohort.session_of(i)
        return encode(self.updates[i], session.params, session.id, self.draws[i][-1])


@pytest.mark.parametrize(
    ("clients", "size", "sizes"), [(9, 9, [9]), (10, 9, [5, 5]), (11, 4, [3, 4, 4])]
)
def test_a_cohort_is_split_evenly_and_each_shard_is_a_session_of_its_own(clients, size, sizes):
    crowd = Crowd(clients, Layout(size))
    assert sorted(len(session.ids) for session in crowd.cohort.sessions) == sizes
    assert len({session.id for session in crowd.cohort.sessions}) == len(sizes)
    assert all(session.params.is_complete for session in crowd.cohort.sessions)
    assert crowd.cohort.ids == tuple(sorted(crowd.updates))
    least = Layout(size).least_shard(2, clients)
    assert least == min(n // Layout(size).shards(n) for n in range(2, clients + 1))


def test_who_is_with_whom_follows_from_the_servers_nonce_alone():
    one, again = Crowd(8, Layout(4)), Crowd(8, Layout(4))
    assert [s.ids for s in one.cohort.sessions] == [s.ids for s in again.cohort.sessions]
    assert one.cohort.sessions[0].ids != tuple(sorted(one.updates))[:4]


def test_the_sum_of_shards_is_the_sum_over_all_their_survivors():
    crowd = Crowd(11, Layout(6))
    gone = [session.ids[0] for session in crowd.cohort.sessions]
    done = crowd.play(without=gone)
    assert done.survivors == tuple(i for i in crowd.cohort.ids if i not in gone)
    for total in done.totals:
        plain = np.sum([crowd.encoded(i) for i in total.survivors], axis=0, dtype=np.uint64)
        np.testing.assert_array_equal(total.words, plain % 2**total.session.params.ring_bits)
    weights = np.array([crowd.updates[i].weight for i in done.survivors])
    deltas = np.stack([np.clip(crowd.updates[i].delta, -1, 1) for i in done.survivors])
    np.testing.assert_allclose(done.mean.delta, weights @ deltas / weights.sum(), atol=2 / 65535)
    assert (done.mean.clients, done.mean.weight) == (9, weights.sum())
    assert done.mean.examples == 9 * 50


def test_a_shard_that_is_lost_leaves_the_others_their_sum():
    crowd = Crowd(12, Layout(6))
    lost, kept = crowd.cohort.sessions
    done = crowd.play(without=lost.ids[:3])
    assert done.survivors == kept.ids
    assert [str(error) for error in done.lost.values()] == ["3 of 6 clients uploaded, 5 are needed"]
    with pytest.raises(errors.Gone, match=r"the shard of client \d+ is lost: 3 of 6"):
        crowd.stage.receive(lost.ids[4], b"")


def test_enough_clients_are_enough_in_every_shard():
    crowd, layout = Crowd(12, Layout(6)), Layout(6)
    assert layout.quorum(12, crowd.encoding) == 10
    crowd.step(lambda i, state, got: state.receive_cohort(got, NOW))
    crowd.stage = crowd.stage.advance()
    one, other = (session.ids for session in crowd.cohort.sessions)
    crowd.step(
        lambda i, state, got: state.receive_shares(got, crowd.updates[i]), (*one[:1], *other[:2])
    )
    assert len(crowd.stage.senders) == 9
    assert not crowd.stage.has_enough(9)  # 5 of one shard and 4 of the other, which would be lost
    again = Crowd(12, Layout(6))
    again.step(lambda i, state, got: state.receive_cohort(got, NOW))
    again.stage = again.stage.advance()
    again.step(
        lambda i, state, got: state.receive_shares(got, again.updates[i]), (one[0], other[0])
    )
    assert again.stage.has_enough(10)
    assert not again.stage.has_enough(11)


def test_a_shard_whose_sum_is_spoiled_is_left_out():
    crowd = Crowd(12, Layout(6))
    liar = crowd.cohort.sessions[0].ids[0]
    done = crowd.play(change=lambda i, y: bytes([y[0] ^ 1]) + y[1:] if i == liar else y)
    assert done.survivors == crowd.cohort.sessions[1].ids
    assert isinstance(done.lost[0], errors.ChecksumMismatch)


def test_a_round_whose_shards_are_all_lost_fails_and_says_why():
    crowd = Crowd(12, Layout(6))
    gone = [i for session in crowd.cohort.sessions for i in session.ids[:3]]
    with pytest.raises(errors.RoundFailed, match="all 2 shards are lost: 3 of 6 clients uploaded"):
        crowd.play(without=gone)


def test_a_client_is_told_nothing_of_another_shard():
    crowd = Crowd(12, Layout(6))
    one, other = crowd.cohort.sessions
    state = crowd.states[one.ids[0]]
    with pytest.raises(errors.SwappedKey):
        state.receive_cohort(crowd.stage.reply(other.ids[0]), NOW)
    with pytest.raises(errors.Gone, match="client 9 is not in this session"):
        crowd.stage.reply(9)


def test_noise_and_shards_do_not_go_together():
    settings = {"name": "t", "noise_multiplier": 1.0, "clip_value": 100.0, "min_cohort": 20}
    task = TaskSettings.checked(**settings, target_cohort=256)
    task_checks.check(task, 4)
    assert task.layout.shards(256) == 1
    with pytest.raises(
        errors.SettingsError, match="is 257, want at most 256 where the server adds"
    ):
        task_checks.check(TaskSettings.checked(**settings, target_cohort=257), 4)


# The sparse graph.

DEGREE, THRESHOLD = 6, 4


def sparse(clients: int, encoding):
    return replace(complete_graph(clients, encoding), neighbours=DEGREE, threshold=THRESHOLD)


def sparse_table(count: int = 15, bits: float = 0) -> Table:
    return Table(count, make_params=sparse, policy=Policy(2, sparse_bits=bits))


def test_a_ring_is_mutual_and_shuffled_by_all_nonces():
    nonces = {i: seeded("nonce")(16) + bytes([i]) for i in range(3, 43)}
    graph = ring(nonces, 6)
    for client, near in graph.items():
        assert len(set(near)) == 6
        assert list(near) == sorted(near)
        assert client not in near
        assert all(client in graph[other] for other in near)
    other = ring(nonces | {5: bytes(17)}, 6)
    assert sum(graph[i] == other[i] for i in nonces) < 4


@pytest.mark.parametrize(
    ("clients", "colluding", "dropping", "degree", "threshold"),
    [
        (1_000, 0.05, 0.05, 52, 37),
        (10_000, 0.05, 0.05, 62, 44),
        (1_000, 0.10, 0.10, 96, 67),
        (10_000, 0.10, 0.10, 122, 85),
        # Published with (140, 104) and (184, 136): even degrees that are two above the least.
        (1_000, 0.20, 0.10, 138, 102),
        (10_000, 0.20, 0.10, 182, 134),
    ],
)
def test_degrees_and_thresholds_are_those_of_the_table(
    clients, colluding, dropping, degree, threshold
):
    assert least_sparse(clients, colluding, dropping, 40) == (degree, threshold)


def test_the_servers_sparse_graphs_satisfy_a_client_and_less_does_not():
    for clients in (256, 1_000, 10_000):
        params = sparse_graph(clients, encoding_of(1))
        check_sparse(params)
        assert params.neighbours < 256
        with pytest.raises(errors.ThresholdTooLow, match="at most 2\\^-60 is safe"):
            check_sparse(replace(params, threshold=params.threshold - 3))
    with pytest.raises(errors.SettingsError, match="more than 255 neighbours"):
        least_sparse(10_000, 0.45)


def test_the_chance_of_a_bad_neighbourhood_is_that_of_drawing_it():
    # Both shares of a client can be had with 4 of the 4 colluders among 8 drawn from 19 others.
    bad = comb(15, 4) / comb(19, 8)
    assert security_bits(20, 8, 6, 0.2) == pytest.approx(-log2(20 * (bad + 0.3**4)))


def test_a_round_on_a_sparse_graph_gives_the_exact_sum_with_drop_outs():
    table = sparse_table()
    gone = (table.ids[4],)
    table.agree(without=gone)
    assert len(table.shared[10].message) == 64 + 114 * DEGREE
    table.reveal()
    total = table.reveals.close()
    assert total.survivors == tuple(i for i in table.ids if i not in gone)
    mean = total.mean()  # the checksum is right
    deltas = np.stack([np.clip(table.updates[i].delta, -1, 1) for i in total.survivors])
    np.testing.assert_allclose(mean.delta, deltas.mean(axis=0), atol=2 / 65535)
    assert table.reveals.blamed == ()


def test_a_client_refuses_a_sparse_graph_that_is_not_safe():
    table = sparse_table(bits=60)
    with pytest.raises(errors.ThresholdTooLow, match="leaves a chance of 2\\^-0"):
        table.joined[10].receive_cohort(table.shares.reply, NOW)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"neighbours": 5}, "a ring with 5 neighbours"),
        ({"threshold": 0}, "threshold 0 of 6"),
        ({"threshold": 7}, "threshold 7 of 6"),
        ({"neighbours": 16}, "threshold 4 of 16"),
        ({"clients": 14, "ring_bits": 18 + 2}, "the parameters are of 14 clients"),
    ],
)
def test_parameters_that_are_no_graph_are_malformed(changes, message):
    table = sparse_table()
    params = replace(CohortReply.from_bytes(table.shares.reply).params, **changes)
    with pytest.raises(errors.Malformed, match=message):
        table.joined[10].receive_cohort(table.cohort(params=params), NOW)


def three_views(table: Table, victim: int) -> dict[int, list[int]]:
    """Each third of the ring is dropped, but for the victim, in the view that it is shown."""
    order = ring_order(table, victim)
    third = len(order) // 3
    return {
        client: sorted({victim} | (set(order) - set(order[part * third : (part + 1) * third])))
        for part in range(3)
        for client in order[part * third : (part + 1) * third]
    }


def ring_order(table: Table, start: int) -> list[int]:
    """The clients as they stand on the ring, from one on."""
    session, order = table.shares.session, [start]
    near = {i: set(session.neighbours(i)) for i in table.ids}
    while len(order) < len(table.ids):
        left = [i for i in table.ids if i not in order]
        order.append(max(left, key=lambda i: len(near[i] & near[order[-1]])))
    return order


def test_three_views_of_a_ring_are_refused_by_the_two_local_rules():
    table = sparse_table(18)
    table.mask()
    victim = table.ids[0]
    session = table.shares.session
    refused = 0
    for client, view in three_views(table, victim).items():
        if client == victim:
            continue
        with pytest.raises(errors.NotASurvivor):
            table.masked[client].receive_survivors(session.bitmap(view))
        refused += 1
    assert refused == 17


def test_neighbours_alone_cannot_make_a_client_of_a_sparse_graph_reveal():
    table = sparse_table()
    table.mask()
    me, session = table.ids[0], table.shares.session
    survivors = session.bitmap(table.ids)
    agreed = table.masked[me].receive_survivors(survivors)
    statement = session.agreement(table.ids, table.ids)
    signed = [
        Signed(i, identity_of(table.ids.index(i)).sign(labels.AGREE, statement))
        for i in session.neighbours(me)
    ]
    with pytest.raises(errors.SplitView, match=r"7 clients signed .* 11 are needed"):
        agreed.receive_agreements(Agreement(tuple(signed)).to_bytes())
    far = [i for i in table.ids if i != me and i not in session.neighbours(me)]
    signed += [
        Signed(i, identity_of(table.ids.index(i)).sign(labels.AGREE, statement)) for i in far[:4]
    ]
    assert agreed.receive_agreements(Agreement(tuple(signed)).to_bytes()).message


def test_a_survivor_list_below_the_quorum_is_refused_even_with_all_neighbours_in_it():
    table = sparse_table()
    table.mask()
    me, session = table.ids[0], table.shares.session
    near = {me, *session.neighbours(me)}
    with pytest.raises(errors.TooFewSurvivors, match="7 clients in the survivor list, 11"):
        table.masked[me].receive_survivors(session.bitmap(near))


def test_a_task_on_a_sparse_graph_is_warned_of(caplog):
    settings = {"name": "big", "min_cohort": 300, "target_cohort": 1000}
    task = TaskSettings.checked(**settings, graph="sparse")
    task_checks.check(task, 4)
    assert "task big: privacy on a sparse graph is a chance" in caplog.text
    assert task.layout.shards(1000) == 1
    assert task.layout.params(1000, task.encoding(4)).neighbours == 160
    assert task.layout.params(256, task.encoding(4)).is_complete
    caplog.clear()
    plain = TaskSettings.checked(**settings)
    task_checks.check(plain, 4)
    assert caplog.text == ""
    assert (plain.layout.shards(1000), plain.layout.least_shard(300, 1000)) == (10, 75)
