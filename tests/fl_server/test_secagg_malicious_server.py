"""A server that lies, one named attack a test; each honest client refuses and says why."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fl_people import (
    AUTHORITY,
    CONTEXT,
    NOW,
    Table,
    encoding_of,
    identity_of,
    member,
    seeded,
    subject_of,
)

from fl_server import errors
from fl_server.secagg import labels
from fl_server.secagg.certificate import Subject, certify, check_certificate, revoke
from fl_server.secagg.client import join
from fl_server.secagg.encode import Update
from fl_server.secagg.keys import Exchange, Identity
from fl_server.secagg.mask import add_masks, pair_key, pair_sign, reduce_ring
from fl_server.secagg.messages import (
    SHARE_OF_B,
    SHARE_OF_S,
    Agreement,
    CohortReply,
    Reveal,
    SharesDown,
    Signed,
)
from fl_server.secagg.pack import unpack
from fl_server.secagg.policy import Memory, Policy
from fl_server.secagg.session import sign_advert


def changed_params(table: Table, **changes: object) -> bytes:
    reply = CohortReply.from_bytes(table.shares.reply)
    return table.cohort(params=replace(reply.params, **changes))


def refuses(table: Table, reply: bytes, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        table.joined[table.ids[0]].receive_cohort(reply, NOW)


def test_a_cohort_below_the_floor_is_refused():
    table = Table()
    table.memories[10] = Memory()
    strict = table.join(10, floor=7)
    with pytest.raises(errors.CohortTooSmall, match="6 clients in the cohort, the floor is 7"):
        strict.receive_cohort(table.shares.reply, NOW)


def test_the_floor_is_twenty_unless_a_caller_says_otherwise():
    assert Policy().cohort_floor == 20
    with pytest.raises(errors.CohortTooSmall):
        Policy(cohort_floor=1)


def test_a_lowered_threshold_is_refused():
    table = Table()
    refuses(
        table,
        changed_params(table, threshold=3),
        errors.ThresholdTooLow,
        "threshold 3 of 5 neighbours, at least 4 is safe",
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ring_bits": 18}, "takes 19 bits; the ring has 18"),
        ({"ring_bits": 30}, "larger than what is needed"),
        ({"prg": 2}, "not those that the update was prepared for"),
        ({"encoding": encoding_of(4, clip_norm=1e9)}, "not those that the update"),
        ({"encoding": encoding_of(4, max_weight=9)}, "not those that the update"),
    ],
)
def test_parameters_that_are_not_the_encoders_own_are_refused(changes, message):
    table = Table()
    refuses(table, changed_params(table, **changes), errors.EncodingMismatch, message)


def test_a_swapped_key_is_refused_by_its_owner():
    table = Table()
    reply = CohortReply.from_bytes(table.shares.reply)
    swapped = replace(reply.adverts[0], mask_key=bytes(range(32)))
    cohort = table.cohort(adverts=(swapped, *reply.adverts[1:]))
    refuses(table, cohort, errors.SwappedKey, "own keys")


def test_a_swapped_key_of_a_neighbour_is_refused_and_named():
    table = Table()
    reply = CohortReply.from_bytes(table.shares.reply)
    swapped = replace(reply.adverts[3], mask_key=bytes(range(32)))
    adverts = (*reply.adverts[:3], swapped, *reply.adverts[4:])
    with pytest.raises(errors.BadSignature, match="advert of client 19") as caught:
        table.joined[10].receive_cohort(table.cohort(adverts=adverts), NOW)
    assert caught.value.who == (19,)


def test_one_key_in_two_adverts_is_refused():
    table = Table()
    reply = CohortReply.from_bytes(table.shares.reply)
    stolen = reply.adverts[2].mask_key
    twin = sign_advert(identity_of(1), 13, CONTEXT, stolen, bytes(range(32)), bytes(16))
    adverts = (reply.adverts[0], twin, *reply.adverts[2:])
    refuses(table, table.cohort(adverts=adverts), errors.KeysNotDistinct, "the same")


def test_a_second_form_of_a_key_is_refused_as_a_copy_would_be():
    table = Table()
    reply = CohortReply.from_bytes(table.shares.reply)
    stolen = bytearray(reply.adverts[2].mask_key)
    stolen[31] ^= 0x80  # the bit that X25519 does not look at
    twin = sign_advert(identity_of(1), 13, CONTEXT, bytes(stolen), bytes(range(32)), bytes(16))
    adverts = (reply.adverts[0], twin, *reply.adverts[2:])
    refuses(table, table.cohort(adverts=adverts), errors.BadKey, "not in its canonical form")


def with_certificate(table: Table, i: int, **changes: object) -> bytes:
    reply = CohortReply.from_bytes(table.shares.reply)
    certificates = list(reply.certificates)
    certificates[i] = member(i, **changes).certificate
    return table.cohort(certificates=tuple(certificates))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"not_after": 10}, "client 13: not valid at this time"),
        ({"not_before": 1_900_000}, "client 13: not valid at this time"),
        ({"tenant": "other"}, "of other/watches, not of clinic/watches"),
        ({"population": "phones"}, "of clinic/phones"),
    ],
)
def test_a_neighbours_certificate_must_be_of_now_and_here(changes, message):
    table = Table()
    refuses(table, with_certificate(table, 1, **changes), errors.BadCertificate, message)


def test_a_certificate_of_the_servers_own_making_is_refused():
    table = Table()
    reply = CohortReply.from_bytes(table.shares.reply)
    forged = certify(Identity(bytes(32)), subject_of(1, identity_of(1).public))
    certificates = (reply.certificates[0], forged, *reply.certificates[2:])
    cohort = table.cohort(certificates=certificates)
    refuses(table, cohort, errors.BadCertificate, "client 13: the signature does not verify")


def test_one_identity_under_two_names_is_refused():
    table = Table()
    reply = CohortReply.from_bytes(table.shares.reply)
    double = certify(AUTHORITY, subject_of(1, identity_of(0).public))
    cohort = table.cohort(certificates=(reply.certificates[0], double, *reply.certificates[2:]))
    refuses(table, cohort, errors.BadCertificate, "one identity key")


def test_a_revoked_neighbour_is_refused():
    table = Table()
    cohort = table.cohort(revocations=revoke(AUTHORITY, 2, {1001}))
    refuses(table, cohort, errors.BadCertificate, "client 13: revoked")


def test_an_older_or_a_forged_revocation_list_is_refused():
    table = Table()
    table.memories[10].saw_revocations(5)
    refuses(table, table.cohort(), errors.BadCertificate, "list 1 is older than list 5")
    forged = revoke(Identity(bytes(32)), 9, set())
    refuses(table, table.cohort(revocations=forged), errors.BadCertificate, "revocations")


def test_another_model_than_the_one_trained_on_is_refused():
    table = Table()
    cohort = table.cohort(context=replace(CONTEXT, model=bytes(32)))
    refuses(table, cohort, errors.ModelMismatch, "the session is about model 000000000000")


def test_clients_shown_two_models_get_masks_that_do_not_cancel():
    # Were the check of the model absent, the session ids would still differ: the sum is noise.
    keys = {}
    for name in (b"a", b"b"):
        table = Table(context=replace(CONTEXT, model=name * 32))
        table.share()
        keys[name] = table
    assert keys[b"a"].shared[10].session.id != keys[b"b"].shared[10].session.id
    sums = []
    for view in (keys[b"a"], keys[b"b"]):
        view.updates = {i: Update(np.zeros(4, np.float32)) for i in view.ids}
        state = view.shared[10].receive_shares(view.vectors.reply(10), view.updates[10])
        params = state.session.params
        sums.append(unpack(state.message, params.encoding.total_length, params.ring_bits))
    # The same update, the same secrets: only the model differs, and not one word agrees.
    assert (sums[0] != sums[1]).all()


@pytest.mark.parametrize("number", [7, 6, 0])
def test_a_round_that_is_not_above_the_last_is_refused(number):
    table = Table()
    with pytest.raises(errors.StaleRound, match="comes after round 7"):
        table.join(10, replace(CONTEXT, round=number))


def test_a_session_of_another_round_or_task_is_refused():
    table = Table()
    later = table.cohort(context=replace(CONTEXT, round=8))
    refuses(table, later, errors.StaleRound, "joined round 7, the session is of round 8")
    other = table.cohort(context=replace(CONTEXT, task="knee"))
    refuses(table, other, errors.ModelMismatch, "task")


def test_a_stage_that_is_replayed_gets_the_same_bytes_and_a_changed_one_gets_none():
    table = Table()
    table.agree()
    first, other_nonce = table.joined[10], table.cohort(server_nonce=bytes(32))
    assert first.receive_cohort(table.shares.reply, NOW) is table.shared[10]
    with pytest.raises(errors.StageReplayed, match="Advertised"):
        first.receive_cohort(other_nonce, NOW)
    same = table.shared[10].receive_shares(table.vectors.reply(10), table.updates[10])
    assert same.message == table.masked[10].message
    down = SharesDown.from_bytes(table.vectors.reply(10))
    fewer = SharesDown(table.shares.session.bitmap(table.ids[:5]), down.sealed[:4]).to_bytes()
    with pytest.raises(errors.StageReplayed, match="Shared"):
        table.shared[10].receive_shares(fewer, table.updates[10])
    with pytest.raises(errors.StageReplayed, match="Masked"):
        table.masked[10].receive_survivors(table.shares.session.bitmap(table.ids[:5]))
    done = table.agreed[10].receive_agreements(table.reveals.reply)
    assert table.agreed[10].receive_agreements(table.reveals.reply) is done
    with pytest.raises(errors.StageReplayed, match="Agreed"):
        table.agreed[10].receive_agreements(table.reveals.reply[:-68])


def test_a_second_vector_for_the_same_model_never_leaves():
    table = Table()
    table.mask()
    with pytest.raises(errors.SpentUpdate, match="is spent"):
        table.join(10, replace(CONTEXT, round=8))
    with pytest.raises(errors.SpentUpdate, match="another vector"):
        table.memories[10].spend(CONTEXT.task, CONTEXT.model, bytes(32))
    table.join(10, replace(CONTEXT, round=8, model=bytes(32)))


def test_a_failed_round_run_again_with_one_client_less_is_refused_by_all():
    table = Table()
    table.mask()
    for i in table.ids[:5]:
        with pytest.raises(errors.SpentUpdate):
            table.join(i, replace(CONTEXT, round=8))


def test_a_vector_is_spent_by_model_and_weights_whatever_else_the_context_covers():
    memory, trained = Memory(), b"t" * 32
    arguments = encoding_of(4), Policy(2), memory, seeded("again")
    memory.spend(CONTEXT.task, trained, b"y" * 32)
    for model in (bytes(32), CONTEXT.model):
        with pytest.raises(errors.SpentUpdate, match="the update of model 747474747474 is spent"):
            join(member(10), replace(CONTEXT, model=model), *arguments, trained)
    # Of a journal that was kept by the context's own digest.
    memory.spend(CONTEXT.task, bytes(32), b"y" * 32)
    with pytest.raises(errors.SpentUpdate, match="the update of model 000000000000 is spent"):
        join(member(10), replace(CONTEXT, model=bytes(32)), *arguments, b"o" * 32)
    join(member(10), CONTEXT, *arguments, b"o" * 32)


def test_too_few_shares_are_refused_before_the_vector_leaves():
    table = Table()
    table.share()
    down = SharesDown.from_bytes(table.vectors.reply(10))
    fewer = SharesDown(table.shares.session.bitmap(table.ids[:4]), down.sealed[:3])
    with pytest.raises(errors.TooFewShares, match="3 neighbours sent valid shares, 4 are needed"):
        table.shared[10].receive_shares(fewer.to_bytes(), table.updates[10])
    table.memories[10].check_unspent(CONTEXT.task, CONTEXT.model)


def test_too_few_sharers_for_the_floor_are_refused_before_the_vector_leaves():
    table = Table(floor=6)
    del table.joined[25]
    table.share()
    with pytest.raises(errors.CohortTooSmall, match="5 clients have shared, the floor is 6"):
        table.shared[10].receive_shares(table.vectors.reply(10), table.updates[10])


def test_boxes_given_to_the_wrong_client_do_not_count_as_shares():
    table = Table()
    table.share()
    wrong = SharesDown.from_bytes(table.vectors.reply(13)).sealed
    down = SharesDown(table.shares.session.bitmap(table.ids), wrong).to_bytes()
    with pytest.raises(errors.TooFewShares, match="0 neighbours"):
        table.shared[10].receive_shares(down, table.updates[10])


def test_a_survivor_list_without_the_client_itself_is_refused():
    table = Table()
    table.mask()
    with pytest.raises(errors.NotASurvivor):
        table.masked[10].receive_survivors(table.shares.session.bitmap(table.ids[1:]))


def test_a_survivor_list_below_the_threshold_is_refused():
    table = Table()
    table.mask()
    with pytest.raises(errors.TooFewSurvivors, match="3 neighbours in the survivor list, 4"):
        table.masked[10].receive_survivors(table.shares.session.bitmap(table.ids[:4]))


def test_a_survivor_list_with_a_client_that_never_shared_is_refused():
    table = Table()
    del table.joined[25]
    table.mask()
    with pytest.raises(errors.TooFewSurvivors, match="never shared"):
        table.masked[10].receive_survivors(table.shares.session.bitmap(table.ids))


def two_views(count: int, colluders: int) -> tuple[Table, int, list[int], list[int]]:
    """A victim that one half is told has vanished, and the other half is told is alive."""
    table = Table(count)
    table.mask()
    victim, honest = table.ids[0], table.ids[1 + colluders :]
    half = len(honest) // 2
    return table, victim, honest[:half], honest[half:]


def test_two_views_of_the_survivors_leave_each_view_with_too_few_signatures():
    colluders = 3  # ceil(N/3) - 1, the most that the threshold is safe against
    table, victim, dropped_view, alive_view = two_views(12, colluders)
    session, ids = table.shares.session, table.ids
    without = session.bitmap(i for i in ids if i != victim)
    agreed = {i: table.masked[i].receive_survivors(without) for i in dropped_view}
    agreed |= {i: table.masked[i].receive_survivors(session.bitmap(ids)) for i in alive_view}
    for view, survivors in ((dropped_view, without), (alive_view, session.bitmap(ids))):
        signatures = {i: agreed[i].message for i in view}
        statement = session.agreement(ids, session.members(survivors))
        for i in range(1, 1 + colluders):
            signatures[ids[i]] = identity_of(i).sign(labels.AGREE, statement)
        agreement = Agreement(tuple(Signed(*pair) for pair in signatures.items())).to_bytes()
        for i in view:
            with pytest.raises(errors.SplitView, match="neighbours signed the survivor list"):
                agreed[i].receive_agreements(agreement)


def test_signatures_that_are_repeated_forged_or_of_strangers_do_not_count():
    table = Table()
    table.agree()
    signed = Agreement.from_bytes(table.reveals.reply).signed
    padded = Agreement((*signed[:3], *signed[1:3], *signed[1:3], Signed(9, bytes(64))))
    with pytest.raises(errors.SplitView, match="2 neighbours signed"):
        table.agreed[10].receive_agreements(padded.to_bytes())


def test_more_signatures_than_there_can_be_clients_are_not_looked_at():
    table = Table()
    table.agree()
    with pytest.raises(errors.Malformed, match="Agreement: more than 10000 items"):
        table.agreed[10].receive_agreements(bytes(68 * 10_001))


def test_exactly_the_threshold_of_signatures_is_enough_and_one_less_is_not():
    table = Table()
    table.agree()
    others = [s for s in Agreement.from_bytes(table.reveals.reply).signed if s.client != 10]
    with pytest.raises(errors.SplitView, match=r"3 neighbours signed .* 4 are needed"):
        table.agreed[10].receive_agreements(Agreement(tuple(others[:3])).to_bytes())
    assert table.agreed[10].receive_agreements(Agreement(tuple(others[:4])).to_bytes()).message


def test_no_client_reveals_both_shares_of_one_other():
    table = Table(8)
    table.agree(without=(13,))
    wanted = {i: SHARE_OF_S if i == 13 else SHARE_OF_B for i in table.ids}
    for i, state in table.agreed.items():
        reveal = Reveal.from_bytes(state.receive_agreements(table.reveals.reply).message)
        kinds = [share.kind for share in reveal.shares]
        assert kinds == [wanted[j] for j in table.ids if j != i]
        table.reveals.receive(i, reveal.to_bytes())
    assert set(table.reveals.close().survivors) == set(table.ids) - {13}


@pytest.mark.parametrize("stage", ["receive_cohort", "receive_agreements"])
def test_bytes_that_are_no_message_are_malformed(stage):
    table = Table()
    table.agree()
    state = Table().joined[10] if stage == "receive_cohort" else table.agreed[10]
    for size in (1, 50, 67, 149):
        arguments = (NOW,) if stage == "receive_cohort" else ()
        with pytest.raises(errors.Malformed):
            getattr(state, stage)(seeded(size)(size), *arguments)


def test_a_lone_vector_is_hidden_without_the_self_mask():
    # All pair masks of one client removed, its vector still looks like noise: b protects it.
    table = Table(length=2000)
    table.updates = {i: Update(np.zeros(2000, np.float32)) for i in table.ids}
    table.mask()
    state, session = table.masked[10], table.shares.session
    bits = session.params.ring_bits
    words = unpack(state.message, session.params.encoding.total_length, bits)
    masks = []
    for other in session.neighbours(10):
        secret = table.joined[other]._client.secrets.mask_secret
        shared = Exchange(secret).shared(session.adverts[10].mask_key)
        masks.append((pair_key(shared, session.id, 10, other, bits), -pair_sign(10, other)))
    add_masks(words, masks)
    reduce_ring(words, bits)
    counts = np.bincount(words >> (bits - 2), minlength=4)
    assert counts.min() > 400


def test_a_certificate_that_was_valid_is_checked_again_but_for_its_signature():
    authority, other = Identity(bytes(32)), Identity(bytes(range(32)))
    subject = Subject(1, 2, other.public, 0, 100, "t", "p")
    valid = certify(authority, subject)
    arguments = "t", "p", 50.0, set()
    for _ in range(2):
        assert check_certificate(authority.public, valid, *arguments) == subject
    forged = replace(valid, subject=replace(subject, client=3))
    for key, certificate, *given in (
        (other.public, valid, *arguments),
        (authority.public, forged, *arguments),
        (authority.public, replace(valid, signature=bytes(64)), *arguments),
        (authority.public, valid, "t", "p", 101.0, set()),
        (authority.public, valid, "t", "p", 50.0, {1}),
        (authority.public, valid, "t", "q", 50.0, set()),
    ):
        with pytest.raises(errors.BadCertificate):
            check_certificate(key, certificate, *given)
