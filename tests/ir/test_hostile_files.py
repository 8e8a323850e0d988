"""Damaged and hostile model files: each is an error that names the place, and quickly so."""

from __future__ import annotations

import dataclasses
import hashlib
import random
import struct
from typing import Any

import flatbuffers
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir import model_file
from ir.errors import FormatError
from ir.generated import model_generated as fb
from ir.graph import Model
from ir.index_pack import EntryRows, IndexRows, pack
from ir.index_reader import decode
from ir.index_words import BASE, FIRST_SYMBOL
from ir.op import OPS
from tests.ir.test_model_file import TRAILER, small_model
from tests.random_graphs import random_model, random_symbolic_graph

ADD, MUL, DIV, _, _ = range(-BASE, -BASE + 5)
SYMBOL = FIRST_SYMBOL - BASE
F32 = 1


def refusal(data: bytes) -> str:
    with pytest.raises(FormatError) as error:
        model_file.read(data)
    assert "\n" not in str(error.value)
    return str(error.value)


def resealed(data: bytes | bytearray, index_size: int) -> bytes:
    """The file with the root hash and the trailer's hash of what it holds now."""
    sizes = struct.pack("<QQ", len(data), index_size)
    root = hashlib.sha256(b"mindspan model root 1\0" + sizes + data[:index_size]).digest()
    fields = struct.pack("<8sQQ32s96x", b"MSPNTAIL", index_size, len(data), root)
    return bytes(data[:-TRAILER]) + fields + hashlib.sha256(fields).digest()


def index_size(data: bytes) -> int:
    return int(struct.unpack_from("<Q", data, len(data) - TRAILER + 8)[0])


def test_every_changed_bit_of_a_file_is_found() -> None:
    data = model_file.write(small_model(), sign_with=bytes(range(32)))
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 1 << at % 8
        assert refusal(bytes(broken)).startswith("model file")


def test_every_shortened_or_lengthened_file_is_refused() -> None:
    data = model_file.write(small_model())
    for size in range(len(data)):
        refusal(data[:size])
    for tail in (b"\0", bytes(8), bytes(64), data[-TRAILER:], data):
        refusal(data + tail)


def test_parts_of_two_files_do_not_make_a_third() -> None:
    rng = random.Random(1)
    files = [model_file.write(random_model(seed)) for seed in range(4)]
    for _ in range(200):
        a, b = rng.sample(files, 2)
        cut, join = rng.randrange(1, len(a)), rng.randrange(1, len(b))
        if a[:cut] + b[join:] not in files:
            refusal(a[:cut] + b[join:])


@given(seed=st.integers(0, 2**31), edits=st.integers(1, 6))
@settings(max_examples=300, deadline=30_000)
def test_a_hostile_index_with_right_hashes_gives_a_model_or_a_format_error(
    seed: int, edits: int
) -> None:
    rng = random.Random(seed)
    symbolic = Model({"f": random_symbolic_graph(seed % 8)})
    data = bytearray(model_file.write(symbolic if seed % 2 else random_model(seed % 8)))
    size = index_size(data)
    for _ in range(edits):
        at = rng.randrange(size)
        if rng.random() < 0.5:
            data[at] ^= 1 << rng.randrange(8)
        else:
            word = rng.choice([0, 1, 7, 2**16, 2**30, 2**31, 2**31 + 3, 2**31 + 16, 2**32 - 1])
            data[at & ~3 : (at & ~3) + 4] = word.to_bytes(4, "little")
    try:
        model_file.read(resealed(data, size))
    except FormatError as error:
        assert "\n" not in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (0, b"MSPNTAIM", "the trailer starts with"),
        (8, bytes(8), "an index of 0 bytes"),
        (8, b"\xff" * 8, "an index of 18446744073709551615 bytes"),
        (16, bytes(8), "the trailer says 0"),
        (24, bytes(32), "does not have the root hash"),
        (56, b"\1" * 32, "a key or a signature, but not both"),
    ],
)
def test_each_field_of_the_trailer_is_checked(at: int, value: bytes, message: str) -> None:
    data = bytearray(model_file.write(small_model()))
    start = len(data) - TRAILER
    data[start + at : start + at + len(value)] = value
    data[-32:] = hashlib.sha256(data[start:-32]).digest()
    assert message in refusal(bytes(data))


def test_padding_that_is_not_zero_is_named() -> None:
    data = bytearray(model_file.write(small_model()))
    data[index_size(data)] = 1
    assert "segment 0: the padding before it is not zero" in refusal(bytes(data))
    data = bytearray(model_file.write(small_model()))
    data[-TRAILER - 1] = 1
    assert "the padding before it is not zero" in refusal(bytes(data))


def test_a_damaged_segment_is_named() -> None:
    data = bytearray(model_file.write(small_model()))
    data[-(-index_size(data) // 64) * 64] ^= 1
    assert "segment 0: does not have the hash that the index states" in refusal(bytes(data))


# Hand-made indexes. One weight of 3 floats, one input and a tanh of it.
POOL = [3, 2, 3, 1, 2, 0]  # shape [3]; shape [2,3]; ids of tanh: 1 -> 2; an attribute
NAMES = b"\0f\0x\0w\0n\0"
F, X, W, N = 1, 3, 5, 7
SEGMENT = bytes(12)


def base() -> IndexRows:
    entry = EntryRows(
        name=F,
        values=[(F32, 2, 1), (F32, 2, 1)],
        value_names=[X],
        nodes=[(OPS["tanh"].code, 1, 1, 3, 5)],
        inputs=[1],
        outputs=[2],
        output_names=[X],
    )
    return IndexRows(
        weights=[(F32, 1, 1, 0, W, 0, 0)],
        entries=[entry],
        symbols=[(N, 1, 8)],
        expressions=[],
        pool=POOL,
        names=NAMES,
        segments=[],
        metadata={},
    )


def decoded(index: IndexRows, segment: bytes = SEGMENT) -> Model:
    return decode(pack(index), [memoryview(segment)])


def test_the_hand_made_index_is_good() -> None:
    graph = decoded(base()).entries["f"]
    assert [n.op.name for n in graph.nodes] == ["tanh"]


def code(op: str) -> int:
    return OPS[op].code


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": [(F32, 4, 1, 0, W, 0, 0)]}, "weight 0 'w': kind 4 in segment 0"),
        ({"weights": [(F32, 1, 1, 1, W, 0, 0)]}, "kind 1 in segment 1 of 1"),
        ({"weights": [(11, 1, 1, 0, W, 0, 0)]}, "element type 11 is unknown"),
        ({"weights": [(9, 1, 1, 0, W, 0, 0)]}, "tape of shape [3], want numbers"),
        ({"weights": [(F32, 1, 9, 0, W, 0, 0)]}, "rank 9, want at most 8"),
        ({"weights": [(F32, 1, 1, 0, 2, 0, 0)]}, "no name starts at 2"),
        ({"weights": [(F32, 1, 1, 0, 99, 0, 0)]}, "no name starts at 99"),
        ({"weights": [(F32, 1, 1, 0, W, 6, 0)]}, "words 6 to 7 of 6"),
        ({"weights": [(F32, 1, 1, 0, W, 0, 1)]}, "bytes 16 to 28 of 12, want from 0"),
        ({"weights": [(F32, 1, 2, 0, W, 1, 0)]}, "bytes 0 to 24 of 12"),
        ({"weights": [(F32, 1, 1, 0, W, 0, 0)] * 2}, "bytes 0 to 12 of 12, want from 12"),
        ({"weights": []}, "want every segment filled"),
        ({"pool": [-3, *POOL[1:]]}, "shape [-3], want no size below 0"),
        ({"pool": [-BASE, *POOL[1:]]}, "expression 0 of 0"),
        ({"pool": [-BASE, *POOL[1:], SYMBOL], "expressions": [(6, 1)]}, "shape [n], want numbers"),
        ({"symbols": [(N, -1, 8)]}, "a symbol of -1 to 8"),
        ({"symbols": [(N, 9, 8)]}, "a symbol of 9 to 8"),
        ({"symbols": [(N, 1, 8)] * 2}, "symbols ['n', 'n']"),
        ({"names": b"\0f\0x\0w\0\7\0"}, "want no control characters"),
        ({"names": b"\0f\0x\0w\0\xff\0"}, "not a FlatBuffer of its kind"),
        ({"names": NAMES[:-1]}, "no name starts at 7"),
        ({"entries": []}, "entries [], want"),
        ({"entries": base().entries * 2}, "entries ['f', 'f'], want different ones"),
        ({"metadata": {"a": "\1"}}, "metadata 'a'"),
    ],
)
def test_wrong_rows_of_the_index_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError) as error:
        decoded(dataclasses.replace(base(), **change))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 0}, "entries [], want different ones"),
        ({"values": [(F32, 2, 1)]}, "node 0 (tanh): id 2 is not one of 1 values"),
        ({"values": [(F32, 2, 1)] * 3}, "id 3 is no input and no result"),
        ({"values": [(F32, 2, 1), (F32, 1, 0)]}, "result 0: want f32[2,3]"),
        ({"value_names": [X] * 3}, "3 names for 2 values"),
        ({"sources": [X, X]}, "2 sources for 1 nodes"),
        ({"inputs": [2]}, "id 2 stands where 1 is next"),
        ({"inputs": []}, "node 0 (tanh): reads id 1, which is not computed yet"),
        ({"inputs": [1, 1]}, "id 1 stands where 2 is next"),
        ({"outputs": [3]}, "reads id 3, which is not computed yet"),
        ({"output_names": []}, "0 names for 1 outputs"),
        ({"nodes": [(60_000, 1, 1, 3, 5)]}, "operator code 60000 is unknown"),
        ({"nodes": [(code("tanh"), 0, 2, 3, 5)]}, "2 results, want 1"),
        ({"nodes": [(code("tanh"), 9, 1, 3, 5)]}, "more ids than the pool has words"),
        ({"nodes": [(code("tanh"), 1, 1, 5, 5)]}, "words 5 to 7 of 6"),
        ({"nodes": [(code("add"), 1, 1, 3, 5)]}, "1 inputs, want 2"),
        ({"nodes": [(code("clip"), 1, 1, 3, 5)]}, "node 0 (clip): high: words 6 to 7 of 6"),
        ({"nodes": [(code("reduce_sum"), 1, 1, 3, 4)]}, "axes: words 5 to 7 of 6"),
        ({"nodes": [(code("reduce_sum"), 1, 1, 3, 1)]}, "keep_dims is 2"),
        ({"nodes": [(code("increment"), 1, 1, 3, 5)]}, "reads id 2, which is not computed yet"),
    ],
)
def test_wrong_rows_of_an_entry_are_named(change: dict[str, Any], message: str) -> None:
    index = base()
    index.entries = [dataclasses.replace(index.entries[0], **change)]
    with pytest.raises(FormatError) as error:
        decoded(index)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([], "0 tokens, want 1 to 256"),
        ([1] * 257, "257 tokens"),
        ([1, 2], "leaves 2 values, want 1"),
        ([1] * 65, "more than 64 values on the stack"),
        ([ADD], "with 0 values on the stack"),
        ([1, ADD], "with 1 values on the stack"),
        ([1, 2, -BASE + 5], "token -2147483643 with 2 values"),
        ([1, 0, DIV], "divides by 0, want at least 1"),
        ([SYMBOL, -1, DIV], "divides by -1, want at least 1"),
        ([SYMBOL + 1], "symbol 1 of 1"),
    ],
)
def test_wrong_expressions_are_refused(tokens: list[int], message: str) -> None:
    index = base()
    index.expressions = [(len(POOL), len(tokens))]
    index.pool = [3, -BASE, *POOL[2:], *tokens]
    with pytest.raises(FormatError) as error:
        decoded(index)
    assert message in str(error.value)


def test_an_expression_whose_sum_of_products_explodes_is_refused() -> None:
    names = [f"s{i}" for i in range(40)]
    tokens = [SYMBOL, SYMBOL + 1, ADD]
    for i in range(2, 40, 2):
        tokens += [SYMBOL + i, SYMBOL + i + 1, ADD, MUL]
    index = base()
    index.names = NAMES + "\0".join(names).encode() + b"\0"
    index.symbols = [(index.names.index(f"\0{n}\0".encode()) + 1, 1, 8) for n in names]
    index.expressions = [(len(POOL), len(tokens))]
    index.pool = [3, -BASE, *POOL[2:], *tokens]
    with pytest.raises(FormatError, match="more than 256 terms"):
        decoded(index)


def test_a_weight_is_overwritten_once_and_only_where_it_may_be() -> None:
    index = base()
    step = (code("increment"), 1, 1, 6, 8)
    index.pool = [*POOL, 0, 0, 1]
    index.entries[0].nodes = [*index.entries[0].nodes, step]
    index.weights = [(5, 2, 1, 0, W, 0, 0)]  # int32 state
    assert len(decoded(index).entries["f"].updates) == 1
    index.weights = [(5, 3, 1, 0, W, 0, 0)]
    with pytest.raises(FormatError, match="a weight of kind 1 or 2 that is not updated yet"):
        decoded(index)
    index.weights = [(5, 2, 1, 0, W, 0, 0)]
    index.entries[0].nodes = [*index.entries[0].nodes, step]
    with pytest.raises(FormatError, match="that is not updated yet"):
        decoded(index)


def test_a_bool_that_is_neither_0_nor_1_is_refused() -> None:
    index = base()
    index.weights = [(7, 1, 1, 0, W, 0, 0)]
    decoded(index, b"\0\1\0")
    with pytest.raises(FormatError, match="a bool that is neither 0 nor 1"):
        decoded(index, b"\0\2\0")


def test_kinds_that_may_not_share_a_segment_are_refused() -> None:
    index = base()
    index.weights = [(F32, 1, 1, 0, W, 0, 0), (F32, 2, 1, 0, N, 0, 1)]
    with pytest.raises(FormatError, match="kind 2 in segment 0 of another kind"):
        decoded(index, bytes(28))


def test_a_list_of_more_than_8_numbers_is_refused() -> None:
    index = base()
    index.entries[0].nodes = [(code("reduce_sum"), 1, 1, 3, 6)]
    index.pool = [*POOL, 9, *range(9), 0]
    with pytest.raises(FormatError, match="axes has 9 numbers, want at most 8"):
        decoded(index)


def test_a_gap_between_tensors_that_is_not_zero_is_refused() -> None:
    index = base()
    index.weights = [(F32, 1, 1, 0, W, 0, 0), (F32, 1, 1, 0, N, 0, 1)]
    index.entries[0] = dataclasses.replace(
        index.entries[0], nodes=[(OPS["tanh"].code, 1, 1, 6, 5)], inputs=[2], outputs=[3]
    )
    index.pool = [*POOL, 2, 3]
    decoded(index, bytes(28))
    with pytest.raises(FormatError, match="weight 1 'n': the padding before it is not zero"):
        decoded(index, bytes(15) + b"\1" + bytes(12))


def test_tables_that_share_their_vectors_to_look_larger_are_refused() -> None:
    b = flatbuffers.Builder(0)
    inputs = b.CreateNumpyVector(np.arange(100, dtype=np.uint32))
    fb.EntryStartValuesVector(b, 100)
    for _ in range(100):
        fb.CreateValue(b, F32, 0, 0)
    values = b.EndVector()
    fb.EntryStart(b)
    fb.EntryAddValues(b, values)
    fb.EntryAddInputs(b, inputs)
    entry = fb.EntryEnd(b)
    fb.IndexStartEntriesVector(b, 100)
    for _ in range(100):
        b.PrependUOffsetTRelative(entry)
    entries = b.EndVector()
    fb.IndexStart(b)
    fb.IndexAddEntries(b, entries)
    b.Finish(fb.IndexEnd(b), file_identifier=b"MSPN")
    with pytest.raises(FormatError, match="vectors of the index are larger than the index"):
        decode(bytes(b.Output()), [])


def test_another_major_version_is_refused() -> None:
    b = flatbuffers.Builder(0)
    fb.IndexStart(b)
    fb.IndexAddMajor(b, 2)
    b.Finish(fb.IndexEnd(b), file_identifier=b"MSPN")
    with pytest.raises(FormatError, match="major version 2, want 1"):
        decode(bytes(b.Output()), [])
