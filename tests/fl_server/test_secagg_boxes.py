"""Each box of the protocol alone: packing, sharing, masks, keys, messages, encoding."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from fl_people import encoding_of, members, play, seeded, updates_of
from hypothesis import given, settings
from hypothesis import strategies as st

from fl_server import errors
from fl_server.errors import (
    ChecksumMismatch,
    EncodingError,
    Malformed,
    ModulusTooSmall,
    ProtocolError,
    SealBroken,
    TooFewShares,
)
from fl_server.secagg import shamir
from fl_server.secagg.encode import Update, checksum, decode, encode
from fl_server.secagg.keys import Exchange, derive, public_of, wipe
from fl_server.secagg.mask import add_masks, expand, pair_key
from fl_server.secagg.messages import Advert, Reveal, SealedShares, SharesUp, Signed
from fl_server.secagg.pack import pack, packed_size, unpack, word_type
from fl_server.secagg.params import Params, check_ring, complete_graph, least_ring_bits
from fl_server.secagg.seal import BOX_SIZE, open_box, seal
from fl_server.secagg.session import merkle_root

SESSION = bytes(range(32))


def params_of(clients: int = 20, **changes: object) -> Params:
    return complete_graph(clients, encoding_of(**({"length": 1000} | changes)))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 64), st.integers(0, 300), st.integers(0, 2**32))
def test_packing_is_the_bits_one_after_another(bits, count, seed):
    words = np.random.default_rng(seed).integers(0, 2**64, count, np.uint64, endpoint=False)
    words = (words & np.uint64(2**bits - 1)).astype(word_type(bits))
    packed = pack(words, bits)
    number = sum(int(w) << (i * bits) for i, w in enumerate(words))
    assert packed == number.to_bytes(packed_size(count, bits), "little")
    np.testing.assert_array_equal(unpack(packed, count, bits), words)


def test_packing_crosses_its_blocks():
    words = np.arange(70_000, dtype=np.uint32) & np.uint32(2**21 - 1)
    np.testing.assert_array_equal(unpack(pack(words, 21), 70_000, 21), words)


@pytest.mark.parametrize("data", [b"", bytes(5), bytes(7), b"\xff" * 6])
def test_a_vector_of_the_wrong_size_or_with_stray_bits_is_refused(data):
    with pytest.raises(Malformed):
        unpack(data, 2, 21)


def slow_multiply(a: int, b: int) -> int:
    out = 0
    for i in range(8):
        if b >> i & 1:
            out ^= a << i
    for i in range(15, 7, -1):
        if out >> i & 1:
            out ^= 0x11B << (i - 8)
    return out


def test_the_field_is_that_of_aes():
    a, b = np.meshgrid(np.arange(256, dtype=np.uint8), np.arange(0, 256, 5, dtype=np.uint8))
    expected = np.vectorize(slow_multiply)(a.astype(int), b.astype(int))
    np.testing.assert_array_equal(shamir.multiply(a, b), expected)
    units = np.arange(1, 256, dtype=np.uint8)
    assert (shamir.multiply(units, shamir.invert(units)) == 1).all()


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_threshold_of_shares_gives_the_secret_and_fewer_do_not(data):
    count = data.draw(st.integers(2, 40))
    threshold = data.draw(st.integers(2, count))
    draw = seeded(data.draw(st.integers(0, 99)))
    secret = draw(32)
    shares = shamir.split(secret, threshold, count, draw(32 * (threshold - 1)))
    chosen = data.draw(st.permutations(shares))
    assert shamir.combine(chosen, threshold) == secret
    assert shamir.combine(chosen[: threshold - 1], threshold - 1) != secret
    with pytest.raises(TooFewShares):
        shamir.combine(chosen[: threshold - 1], threshold)
    with pytest.raises(TooFewShares):
        shamir.combine([chosen[0]] * threshold, threshold)


def test_all_255_shares_can_be_made():
    draw = seeded("many")
    shares = shamir.split(bytes(32), 171, 255, draw(32 * 170))
    assert shamir.combine(shares[::-1], 171) == bytes(32)


def test_exchange_is_that_of_rfc_7748():
    scalar = bytes.fromhex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4")
    point = bytes.fromhex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c")
    shared = "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"
    assert Exchange(scalar).shared(point).hex() == shared
    assert Exchange(scalar).shared(public_of(bytes(32))) == Exchange(bytes(32)).shared(
        public_of(scalar)
    )


def test_a_public_key_of_low_order_is_refused():
    with pytest.raises(ProtocolError, match="no shared secret"):
        Exchange(bytes(range(32))).shared(bytes(32))


def test_derivation_is_hkdf_of_rfc_5869():
    okm = derive(bytes([0x0B]) * 22, bytes(range(13)), bytes(range(0xF0, 0xFA)), 42)
    assert okm.hex().startswith("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf")


def test_masks_are_the_key_stream_of_aes_128_ctr():
    # The key of NIST SP 800-38A; its first block is AES of zeros, as the counter starts at zero.
    key = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")
    words = expand(key, 70_000, 32)
    assert words[:4].tobytes().hex() == "7df76b0c1ab899b33e42f047b91b546f"
    np.testing.assert_array_equal(expand(key, 70_000, 21), words & np.uint32(2**21 - 1))
    wide = expand(key, 35_000, 64)
    np.testing.assert_array_equal(wide.view(np.uint32), words)


def test_masks_cancel_and_are_even_modulo_four():
    words = np.zeros(100_000, np.uint32)
    add_masks(words, [(b"k" * 16, 1)])
    counts = np.bincount(words & 3, minlength=4)
    assert ((counts - 25_000) ** 2 / 25_000).sum() < 16.3  # chi squared, 3 degrees, p = 0.001
    add_masks(words, [(b"k" * 16, -1)])
    assert not words.any()


def test_keys_of_masks_are_all_different():
    keys = {pair_key(bytes(32), SESSION, 1, j, bits) for j in range(2, 5002) for bits in (20, 21)}
    assert len(keys) == 10_000
    joined = np.frombuffer(b"".join(keys), np.uint8)
    ones = np.unpackbits(joined).mean()
    assert abs(ones - 0.5) < 0.003


def test_a_box_opens_only_for_its_session_and_direction():
    box = seal(b"s" * 32, SESSION, 3, 9, bytes(range(66)))
    assert len(box) == BOX_SIZE == 82
    assert b"".join(open_box(b"s" * 32, SESSION, 3, 9, box)) == bytes(range(66))
    wrong = [
        (b"x" * 32, SESSION, 3, 9, box),
        (b"s" * 32, bytes(32), 3, 9, box),
        (b"s" * 32, SESSION, 9, 3, box),
        (b"s" * 32, SESSION, 3, 8, box),
        (b"s" * 32, SESSION, 3, 9, box[:-1] + bytes([box[-1] ^ 1])),
    ]
    for arguments in wrong:
        with pytest.raises(SealBroken, match="does not open"):
            open_box(*arguments)


def test_messages_have_the_sizes_of_the_protocol():
    assert len(Advert(1, bytes(32), bytes(32), bytes(16), bytes(64)).to_bytes()) == 148
    sealed = SealedShares(bytes(82), bytes(16), bytes(16))
    assert len(SharesUp(bytes(32), bytes(32), (sealed,) * 19).to_bytes()) == 64 + 114 * 19
    assert len(Signed(1, bytes(64)).to_bytes()) == 68
    assert len(Reveal.from_bytes(bytes(34 * 19)).shares) == 19


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=300))
def test_a_message_parses_to_itself_or_is_malformed(data):
    for kind in (Advert, SharesUp, Reveal):
        with suppress(Malformed):
            assert kind.from_bytes(data).to_bytes() == data


def test_a_merkle_root_tells_leaves_from_nodes_and_orders():
    leaves = [bytes([i]) * 4 for i in range(5)]
    roots = {merkle_root(leaves[:n]) for n in range(1, 6)} | {merkle_root(leaves[::-1])}
    assert len(roots) == 6


def test_wiping_zeroes_in_place():
    secret = bytearray(b"secret")
    wipe([secret])
    assert secret == bytes(6)


@pytest.mark.parametrize(
    ("clients", "bits", "weight", "ring"),
    [(20, 16, 1, 21), (20, 8, 1, 13), (50, 16, 1, 22), (100, 16, 1, 23), (20, 16, 64, 27)],
)
def test_the_ring_is_exactly_as_large_as_needed(clients, bits, weight, ring):
    assert least_ring_bits(clients, encoding_of(1, value_bits=bits, max_weight=weight)) == ring


def test_a_ring_in_which_a_sum_could_wrap_is_refused():
    small = replace(params_of(), ring_bits=20)
    with pytest.raises(ModulusTooSmall, match="takes 21 bits; the ring has 20"):
        check_ring(small)
    with pytest.raises(ModulusTooSmall):
        complete_graph(20, encoding_of(1, value_bits=40, max_weight=2**30))


def test_rounding_errs_by_less_than_a_step_and_is_unbiased():
    params = params_of(length=20_000, value_bits=8)
    delta = np.linspace(-1, 1, 20_000, dtype=np.float32)
    step = 2 / 255
    words = np.stack([encode(Update(delta), params, SESSION, seeded(i)(32)) for i in range(50)])[
        :, :20_000
    ]
    decoded = words * step - 1
    assert abs(decoded - delta).max() <= step
    # The stated bound on the standard error is c / ((2^b - 1) sqrt(n)); five of those everywhere.
    assert abs(decoded.mean(axis=0) - delta).max() < 5 / (255 * np.sqrt(50))


def test_a_light_client_keeps_its_precision_beside_a_heavy_one():
    people, encoding = members(2), encoding_of(500, max_weight=1000, clip_value=8.0)
    updates = updates_of(people, encoding)
    light, heavy = (m.id for m in people)
    updates[light] = Update(updates[light].delta, 1)
    updates[heavy] = Update(np.zeros(500, np.float32), 1000)
    mean = play(people, updates, encoding).total.mean()
    error = mean.delta * 1001 - updates[light].delta
    bound = 1000 * 2 * 8.0 / 65535
    assert abs(error).max() <= bound + 1e-3
    alone = encode(updates[light], complete_graph(2, encoding), SESSION, bytes(32))[:500]
    assert abs(alone * (16 / 65535) - 8 - updates[light].delta).max() <= 16 / 65535


def test_an_update_is_clipped_to_its_norm():
    params = params_of(length=4, clip_norm=0.5)
    words = encode(Update(np.full(4, 3, np.float32)), params, SESSION, bytes(32))
    np.testing.assert_allclose(words[:4] * (2 / 65535) - 1, 0.25, atol=2 / 65535)
    within_clip, saturated, _ = words[-3:]
    assert (within_clip, saturated) == (0, 0)


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (Update(np.array([1, np.nan], np.float32)), "not finite"),
        (Update(np.array([1, np.inf], np.float32)), "not finite"),
        (Update(np.zeros(2, np.float32), loss=float("nan")), "not finite"),
        (Update(np.zeros(2, np.float32), weight=11), "weight is 11, wanted 1 to 10"),
        (Update(np.zeros(2, np.float32), weight=0), "weight is 0"),
        (Update(np.zeros(3, np.float32)), r"float32\[3\], wanted float32\[2\]"),
        (Update(np.zeros(2, np.float64)), r"float64\[2\], wanted float32\[2\]"),
        (Update(np.zeros(2, np.float32), correct=-1), "below zero"),
    ],
)
def test_the_encoder_refuses_what_cannot_be_an_update(update, message):
    params = params_of(length=2, max_weight=10)
    with pytest.raises(EncodingError, match=message):
        encode(update, params, SESSION, bytes(32))


def test_a_changed_sum_fails_its_checksum():
    params = params_of(length=50)
    words = encode(Update(np.zeros(50, np.float32)), params, SESSION, bytes(32))
    assert decode(words, 1, params, SESSION).weight == 1
    words[7] ^= 1
    with pytest.raises(ChecksumMismatch):
        decode(words, 1, params, SESSION)


def test_checksums_add_up():
    params = params_of(length=50)
    draw = np.random.default_rng(5)
    a, b = (draw.integers(0, 2**16, 56).astype(np.uint32) for _ in range(2))
    parts = checksum(a, params, SESSION) + checksum(b, params, SESSION)
    assert parts % 2**params.ring_bits == checksum(a + b, params, SESSION)


@pytest.mark.parametrize("changes", [{"value_bits": 0}, {"max_weight": 0}])
def test_an_encoding_that_can_carry_nothing_is_refused(changes):
    with pytest.raises(errors.ModulusTooSmall, match="at least 1"):
        complete_graph(20, encoding_of(1, **changes))
