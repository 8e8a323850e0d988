"""A client that lies, one named attack a test; the server refuses, or goes on and names it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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
    member,
    subject_of,
)

from fl_server import errors
from fl_server.secagg.certificate import certify, revoke
from fl_server.secagg.encode import checksum
from fl_server.secagg.keys import Exchange
from fl_server.secagg.messages import (
    BAD_SHARE,
    SHARE_OF_B,
    SHARE_OF_S,
    Reveal,
    SealedShares,
    SharesUp,
)
from fl_server.secagg.pack import pack, unpack
from fl_server.secagg.seal import open_box, seal
from fl_server.secagg.server import Adverts
from fl_server.secagg.session import sign_advert


def test_a_changed_share_is_skipped_and_its_sender_named():
    def lie(message: bytes) -> bytes:
        first, *others = Reveal.from_bytes(message).shares
        return Reveal((replace(first, share=bytes(33)), *others)).to_bytes()

    table = Table(8)
    table.tamper["reveals", 13] = lie
    table.agree()
    table.reveal()
    total = table.reveals.close()
    assert total.blamed == (13,)
    assert total.mean().clients == 8


def test_the_other_share_than_the_one_wanted_is_skipped_and_its_sender_named():
    def lie(message: bytes) -> bytes:
        shares = Reveal.from_bytes(message).shares
        return Reveal(tuple(replace(share, kind=SHARE_OF_S) for share in shares)).to_bytes()

    table = Table(8)
    table.tamper["reveals", 13] = lie
    table.agree()
    table.reveal()
    assert table.reveals.close().blamed == (13,)


def with_changed_shares(change: Callable[[SharesUp], SharesUp]) -> Table:
    """A round in which what client 13 shares goes through `change`, up to the last stage."""
    table = Table(8)
    table.tamper["shares", 13] = lambda message: change(SharesUp.from_bytes(message)).to_bytes()
    table.agree()
    table.reveal()
    return table


def test_a_client_that_accuses_everybody_frames_nobody():
    def lie(message: bytes) -> bytes:
        shares = Reveal.from_bytes(message).shares
        return Reveal(tuple(replace(share, kind=BAD_SHARE) for share in shares)).to_bytes()

    table = Table(8)
    table.tamper["reveals", 13] = lie
    table.agree()
    table.reveal()
    total = table.reveals.close()
    assert total.blamed == ()
    assert total.accusations == tuple((13, i) for i in table.ids if i != 13)
    assert total.mean().clients == 8


def test_digests_that_do_not_match_the_shares_make_holders_accuse_their_owner():
    def change(up: SharesUp) -> SharesUp:
        bad = replace(up.sealed[0], digest_of_b=bytes(16))
        return replace(up, sealed=(bad, *up.sealed[1:]))

    table = with_changed_shares(change)
    holder = table.shares.session.neighbours(13)[0]
    sent = Reveal.from_bytes(table.agreed[holder].receive_agreements(table.reveals.reply).message)
    assert [s.kind for s in sent.shares].count(BAD_SHARE) == 1
    total = table.reveals.close()
    assert (total.blamed, total.accusations) == ((), ((holder, 13),))
    assert total.mean().clients == 8


def test_a_share_in_the_wrong_place_is_bad_even_if_its_digest_matches():
    table = Table(8)

    def change(message: bytes) -> bytes:
        up, holder = SharesUp.from_bytes(message), table.ids[0]
        session, secrets = table.shares.session, table.joined[13]._client.secrets
        shared = Exchange(secrets.share_secret).shared(session.adverts[holder].share_key)
        of_s, of_b = open_box(shared, session.id, 13, holder, up.sealed[0].box)
        of_b[0] += 1
        wrong = SealedShares(
            seal(shared, session.id, 13, holder, bytes(of_s + of_b)),
            session.share_digest(13, holder, SHARE_OF_S, of_s),
            session.share_digest(13, holder, SHARE_OF_B, of_b),
        )
        return replace(up, sealed=(wrong, *up.sealed[1:])).to_bytes()

    table.tamper["shares", 13] = change
    table.agree()
    table.reveal()
    total = table.reveals.close()
    assert (total.blamed, total.accusations) == ((), ((10, 13),))
    assert total.mean().clients == 8


def test_a_client_whose_boxes_nobody_can_open_fails_the_round_by_name():
    def change(up: SharesUp) -> SharesUp:
        return replace(up, sealed=tuple(replace(s, box=bytes(82)) for s in up.sealed))

    table = with_changed_shares(change)
    assert not table.reveals.ready
    with pytest.raises(errors.RoundFailed, match="client 13") as caught:
        table.reveals.close()
    assert caught.value.who == (13,)


def test_a_commitment_to_another_secret_fails_the_round_by_name():
    table = with_changed_shares(lambda up: replace(up, commitment=bytes(32)))
    with pytest.raises(errors.RoundFailed, match="client 13 shared a secret") as caught:
        table.reveals.close()
    assert caught.value.who == (13,)


def test_an_advertised_key_that_is_not_the_shared_one_fails_the_round_by_name():
    table = Table(8)
    table.share()
    wrong = replace(table.shares.session.adverts[13], mask_key=bytes(range(32)))
    table.agree(without=(13,))
    table.reveal()
    table.reveals.session.adverts[13] = wrong
    with pytest.raises(errors.RoundFailed, match="client 13 shared a key") as caught:
        table.reveals.close()
    assert caught.value.who == (13,)


def test_a_second_vector_is_refused_and_the_first_one_counts_once():
    table = Table()
    table.share()
    state = table.shared[10].receive_shares(table.vectors.reply(10), table.updates[10])
    table.vectors.receive(10, state.message)
    table.vectors.receive(10, state.message)
    with pytest.raises(errors.StageReplayed, match="client 10 sent another message"):
        table.vectors.receive(10, bytes(len(state.message)))
    for i in table.ids[1:]:
        message = table.shared[i].receive_shares(table.vectors.reply(i), table.updates[i]).message
        table.vectors.receive(i, message)
    assert table.vectors.complete


def test_a_vector_after_the_stage_is_over_is_refused():
    table = Table()
    table.mask(without=(25,))
    with pytest.raises(errors.Gone, match="client 25"):
        table.agreements.receive(25, bytes(64))
    with pytest.raises(errors.Gone, match="client 25"):
        table.agree(without=(25,)).receive(25, bytes(34 * 5))


def test_shares_after_the_stage_is_over_are_refused():
    table = Table()
    late = table.joined.pop(25)
    table.share()
    message = late.receive_cohort(table.shares.reply, NOW).message
    with pytest.raises(errors.Gone, match="client 25 is too late"):
        table.shares.receive(25, message)
    with pytest.raises(errors.Gone, match="client 25 did not share in time"):
        table.vectors.reply(25)


def test_a_stage_that_only_the_threshold_reached_ends_the_round_at_once():
    table = Table()
    for i in table.ids[4:]:
        del table.joined[i]
    with pytest.raises(errors.RoundFailed, match="4 of 6 clients shared, 5 are needed"):
        table.share()


def test_a_client_that_is_not_in_the_cohort_is_refused():
    table = Table()
    with pytest.raises(errors.Gone, match="client 99"):
        table.shares.receive(99, bytes(64 + 114 * 5))


def test_a_vector_that_was_changed_on_its_way_fails_the_checksum():
    table = Table(8)

    def change(message: bytes) -> bytes:
        params = table.shares.session.params
        words = unpack(message, params.encoding.total_length, params.ring_bits)
        words[0] ^= 5
        return pack(words, params.ring_bits)

    table.tamper["vectors", 13] = change
    table.agree()
    table.reveal()
    with pytest.raises(errors.ChecksumMismatch):
        table.reveals.close().mean()


def test_an_oversized_weight_is_refused_by_the_encoder_and_seen_in_the_sum():
    table = Table()
    table.updates[10] = replace(table.updates[10], weight=2)
    with pytest.raises(errors.EncodingError, match="weight is 2, wanted 1 to 1"):
        table.mask()
    table = Table(length=3)
    table.agree()
    table.reveal()
    total = table.reveals.close()
    heavy = total.words.copy()
    heavy[3] += 1
    heavy[-1] = checksum(heavy[:-1], total.session.params, total.session.id)
    with pytest.raises(errors.RoundFailed, match="6 clients of weight 1 to 1"):
        replace(total, words=heavy).mean()


def test_an_update_that_is_not_finite_never_leaves():
    table = Table()
    delta = table.updates[10].delta.copy()
    delta[2] = np.nan
    table.updates[10] = replace(table.updates[10], delta=delta)
    with pytest.raises(errors.EncodingError, match="not finite"):
        table.mask()
    table.memories[10].check_unspent(CONTEXT.task, CONTEXT.model)


def adverts() -> Adverts:
    return Adverts(CONTEXT, encoding_of(3), AUTHORITY.public)


def advert_of(i: int, client: int, **context: object) -> bytes:
    keys = bytes([i + 1]) * 32, bytes([i + 101]) * 32, bytes(16)
    return sign_advert(identity_of(i), client, replace(CONTEXT, **context), *keys).to_bytes()


def test_an_advert_under_another_clients_name_is_refused():
    with pytest.raises(errors.BadSignature, match="client 10 sent an advert of 13"):
        adverts().receive(advert_of(0, 13), member(0).certificate, NOW)


def test_an_advert_of_another_round_is_refused():
    with pytest.raises(errors.BadSignature, match="advert of client 10"):
        adverts().receive(advert_of(0, 10, round=6), member(0).certificate, NOW)


def test_a_second_advert_of_one_client_is_refused():
    stage = adverts()
    stage.receive(advert_of(0, 10), member(0).certificate, NOW)
    stage.receive(advert_of(0, 10), member(0).certificate, NOW)
    other = sign_advert(identity_of(0), 10, CONTEXT, b"x" * 32, b"y" * 32, bytes(16))
    with pytest.raises(errors.StageReplayed, match="client 10"):
        stage.receive(other.to_bytes(), member(0).certificate, NOW)


@pytest.mark.parametrize("changes", [{"not_after": 5}, {"tenant": "other"}])
def test_a_certificate_that_does_not_count_here_is_refused(changes):
    with pytest.raises(errors.BadCertificate):
        adverts().receive(advert_of(0, 10), member(0, **changes).certificate, NOW)


def test_a_certificate_signed_by_the_client_itself_is_refused():
    own = certify(identity_of(0), subject_of(0, identity_of(0).public))
    with pytest.raises(errors.BadCertificate, match="does not verify"):
        adverts().receive(advert_of(0, 10), own, NOW)


def test_a_client_revoked_after_it_joined_is_left_out_of_the_cohort():
    stage = adverts()
    for i in range(3):
        stage.receive(advert_of(i, 10 + 3 * i), member(i).certificate, NOW)
    shares = stage.close(bytes(32), revoke(AUTHORITY, 2, {1001}))
    assert shares.session.ids == (10, 16)


def test_a_cohort_of_one_is_refused():
    stage = adverts()
    stage.receive(advert_of(0, 10), member(0).certificate, NOW)
    with pytest.raises(errors.CohortTooSmall):
        stage.close(bytes(32), REVOCATIONS)


SAME, LOW_ORDER = bytes([9]) * 32, bytes(32)


@pytest.mark.parametrize(
    ("share_key", "mask_key", "error", "message"),
    [
        (SAME, SAME, errors.KeysNotDistinct, "one key for both uses"),
        (bytes([1]) * 32, SAME, errors.KeysNotDistinct, "a key that another did"),
        (LOW_ORDER, SAME, errors.BadKey, "low order"),
        (SAME, bytes([1]) + bytes(31), errors.BadKey, "low order"),
        (SAME, bytes([9]) * 31 + bytes([0x89]), errors.BadKey, "canonical"),
    ],
)
def test_an_advert_that_would_end_the_round_is_refused_and_the_others_go_on(
    share_key, mask_key, error, message
):
    stage = adverts()
    for i in (0, 2):
        stage.receive(advert_of(i, 10 + 3 * i), member(i).certificate, NOW)
    bad = sign_advert(identity_of(1), 13, CONTEXT, share_key, mask_key, bytes(16)).to_bytes()
    with pytest.raises(error, match=message) as caught:
        stage.receive(bad, member(1).certificate, NOW)
    assert caught.value.who == (13,)
    assert stage.close(bytes(32), REVOCATIONS).session.ids == (10, 16)


def test_an_agreement_to_another_list_is_refused_and_named():
    table = Table()
    table.mask()
    with pytest.raises(errors.BadSignature, match="client 10") as caught:
        table.agreements.receive(10, bytes(64))
    assert caught.value.who == (10,)


@pytest.mark.parametrize("count", [0, 4, 6])
def test_the_wrong_number_of_shares_is_malformed(count):
    table = Table()
    table.agree()
    with pytest.raises(errors.Malformed, match="shares for 5 neighbours"):
        table.reveals.receive(10, bytes(34 * count))
    with pytest.raises(errors.Malformed, match="boxes for 5 neighbours"):
        Table().shares.receive(10, table.shares.session.id + bytes(32 + 114 * count))
