"""Files whose hashes are right but whose index says what cannot be: refused, with the place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lite_runtime as lite
from ir import model_file
from ir.graph import Graph, Model, Value
from ir.op import OPS
from tests.lite_runtime.forge import Forger, with_hashes
from tests.lite_runtime.models import control_models, linear_model, open_model, small_cnn

LINEAR, CNN = (Forger(model_file.write(m)) for m in (linear_model(), small_cnn()))
LAST = 2**31 - 1
OPERATION = -(2**31)  # an unknown one is +15; symbol k is +16 + k
Change = tuple[int, str, int]


def node(f: Forger, entry: str, op: str) -> int:
    return f.node_number(entry, OPS[op].code)


CASES: list[tuple[Forger, Callable[[Forger], Change], str]] = [
    (LINEAR, lambda f: (f.weight(0), "B", 9), "weight 0: type 9, kind 1, rank 2"),
    (LINEAR, lambda f: (f.weight(0) + 1, "B", 4), "weight 0: type 1, kind 4"),
    (LINEAR, lambda f: (f.weight(0) + 2, "B", 9), "weight 0: type 1, kind 1, rank 9"),
    (LINEAR, lambda f: (f.weight(0) + 3, "B", 7), "weight 0: .* segment 7: no such thing"),
    (LINEAR, lambda f: (f.weight(0) + 4, "I", 10**6), "weight 0: .*no such thing"),
    (LINEAR, lambda f: (f.weight(0) + 8, "I", LAST), "weight 0: .*no such thing"),
    (LINEAR, lambda f: (f.weight(0) + 12, "I", 1), r"weight 0: bytes \[16, \+8\) of segment 1"),
    (CNN, lambda f: (f.weight(1) + 12, "I", 0), r"weight 1: bytes \[0, \+24\) of segment \d; want"),
    (CNN, lambda f: (f.weight(1) + 1, "B", 2), "weight 1: its segment holds another kind"),
    (LINEAR, lambda f: (f.segment(0), "Q", 2**63), r"segment 0: \[9223372036854775808, \+4\)"),
    (LINEAR, lambda f: (f.segment(0) + 8, "Q", 2**64 - 1), "segment 0: .*; want it at"),
    (LINEAR, lambda f: (f.symbol(0) + 4, "i", -1), "free dimension 0: sizes -1 to"),
    (LINEAR, lambda f: (f.symbol(0) + 8, "i", 0), "free dimension 0: sizes 1 to 0"),
    (LINEAR, lambda f: (f.symbol(0), "I", 0), "free dimension 0: .*want a name"),
    (CNN, lambda f: (f.symbol(0), "I", name_at(f, "batch") + 1), "free dimension 0: .*want a name"),
    (LINEAR, lambda f: (expression(f), "i", OPERATION + 15), "expression 0: unknown operation"),
    (LINEAR, lambda f: (expression(f), "i", OPERATION), "expression 0: an operation lacks"),
    (LINEAR, lambda f: (expression(f), "i", OPERATION + 17), "expression 0: unknown symbol"),
    (LINEAR, lambda f: (f.value("infer", 0), "B", 0), "entry 0, value 0: type 0 of rank 2"),
    (LINEAR, lambda f: (f.value("infer", 0) + 1, "B", 9), "entry 0, value 0: type 1 of rank 9"),
    (LINEAR, lambda f: (f.value("infer", 1) + 4, "I", LAST), "entry 0, value 1: .*shape at 214"),
    (LINEAR, lambda f: (shape_word(f), "i", -1), "entry 0, value 0: .*no such thing"),
    (LINEAR, lambda f: (f.node("infer", 0), "H", 9999), "entry 0, node 0: operator code 9999 is"),
    (LINEAR, lambda f: (f.node("infer", 0) + 2, "H", 1), "node 0 .matmul.: wrong number of inputs"),
    (LINEAR, lambda f: (f.node("infer", 0) + 4, "H", 2), "node 0 .matmul.: wrong number of result"),
    (
        LINEAR,
        lambda f: (f.node("infer", 0) + 8, "I", LAST),
        "matmul.: its ids lie outside the pool",
    ),
    (
        LINEAR,
        lambda f: (f.node("infer", 1) + 12, "I", LAST),
        "reshape.: its attributes lie outside",
    ),
    (LINEAR, lambda f: (f.ids("infer", 0), "i", 3), "matmul.: an input is not computed before it"),
    (LINEAR, lambda f: (f.ids("infer", 0), "i", -1), "matmul.: an input is not computed before it"),
    (LINEAR, lambda f: (f.ids("infer", 0), "i", -2), "matmul.: an input is not computed before it"),
    (LINEAR, lambda f: (f.ids("infer", 0) + 8, "i", 0), "matmul.: its results are not numbered"),
    (LINEAR, lambda f: (update_result(f), "i", 1), "sgd_step.: may only overwrite its own input"),
    (LINEAR, lambda f: (f.attrs("infer", 1), "i", 9), "reshape.: attribute 0 is out of range"),
    (LINEAR, lambda f: (f.attrs("infer", 1), "i", -1), "reshape.: attribute 0 is out of range"),
    (LINEAR, lambda f: (f.attrs("infer", 1) + 4, "i", -(2**30) - 5), "attribute 0 is out of range"),
    (LINEAR, lambda f: (f.output("infer", 0), "I", 5), "entry 0: an output is never computed"),
]


def name_at(f: Forger, name: str) -> int:
    return next(i for i in range(1, f.index.NamesLength()) if f.name(i) == name)


def expression(f: Forger) -> int:
    """Where the first token of the first expression stands."""
    return f.pool(f.index.Expressions(0).At())


def shape_word(f: Forger) -> int:
    return f.pool(f.entry("infer").Values(0).Shape()) + 4


def update_result(f: Forger) -> int:
    return f.ids("train", node(f, "train", "sgd_step")) + 4 * 3


@pytest.mark.parametrize(("forger", "change", "words"), CASES)
def test_an_index_that_cannot_be_is_refused(
    forger: Forger, change: Callable[[Forger], Change], words: str
) -> None:
    lite.load(with_hashes(forger.file))
    with pytest.raises(lite.LiteError, match=words):
        lite.load(forger.forged(*change(forger)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        # Sizes that the index may hold, but that do not fit the operator's rule.
        (lambda f: (f.pool(f.entry("infer").Values(1).Shape()) + 4, "i", 3), "matmul .*do not fit"),
        (lambda f: (f.attrs("infer", 1) + 4, "i", 5), "reshape at .*attributes do not fit"),
        (lambda f: (f.value("infer", 1), "B", 5), "matmul at .*do not fit"),
        (lambda f: (f.value("infer", 0), "B", 2), "matmul at .*element type f16"),
    ],
)
def test_shapes_that_do_not_fit_an_operator_are_refused_before_it_runs(
    change: Callable[[Forger], Change], words: str
) -> None:
    session = lite.load(LINEAR.forged(*change(LINEAR)))
    with pytest.raises(lite.LiteError, match=f"^entry infer, node . .{words}"):
        session.planned_bytes("infer")


def test_an_update_of_a_weight_that_is_no_state_and_not_trainable_is_refused() -> None:
    frozen = LINEAR.forged(LINEAR.weight(0) + 1, "B", 3)
    with pytest.raises(lite.LiteError, match=r"sgd_step.: may only overwrite its own input"):
        lite.load(frozen)


def test_names_of_a_hostile_file_cannot_hold_line_ends_or_escapes() -> None:
    at = LINEAR.file.index(b"train\0")
    for byte in (0x0A, 0x1B, 0x7F, 0xFF):
        with pytest.raises(lite.LiteError, match=r"^index: names are not UTF-8, or hold control"):
            lite.load(LINEAR.forged(at, "B", byte))


def test_two_entries_cannot_share_a_name() -> None:
    file = LINEAR.file.replace(b"train\0", b"infer\0")
    with pytest.raises(lite.LiteError, match=r"^entry 1: another one has its name$"):
        lite.load(with_hashes(file))


def test_a_long_name_does_not_break_the_error_that_shows_it() -> None:
    x = Value((2,), name="größe" * 100)
    session = open_model(Graph((x,), (OPS["tanh"](x),)))
    with pytest.raises(lite.LiteError, match=r"^input größe.*: shape \[3\], want \[2\]"):
        session.run([1, 2, 3])


NEWTON, FACTORIAL, TAPES = (Forger(model_file.write(m)) for m in control_models()[:3])


def control(f: Forger, op: str, entry: str = "infer") -> tuple[int, int]:
    """Where the ids and the attributes of a node of control flow stand."""
    number = node(f, entry, op)
    return f.ids(entry, number), f.attrs(entry, number)


@pytest.mark.parametrize(
    ("forger", "change", "words"),
    [
        (NEWTON, lambda f: (control(f, "while_loop")[1], "i", 9), "attribute 0 is out of range"),
        (NEWTON, lambda f: (control(f, "while_loop")[1], "i", 2), "attribute 0 is out of range"),
        (NEWTON, lambda f: (control(f, "while_loop")[1], "i", -1), "attribute 0 is out of range"),
        (NEWTON, lambda f: (control(f, "while_loop")[1], "i", 1), "its condition gives no single"),
        (NEWTON, lambda f: (control(f, "while_loop")[1] + 4, "i", 0), "its body gives another"),
        (NEWTON, lambda f: (control(f, "while_loop")[0], "i", 1), "not of the types of its oper"),
        (NEWTON, lambda f: (f.node("infer", 0) + 2, "H", 2), "its results are not numbered|not of"),
        (TAPES, lambda f: (f.node("infer", 0), "H", OPS["add"].code), "wrong number of inputs"),
        (TAPES, lambda f: (f.value("infer", 0), "B", 9), "type 9 of rank 1 with a shape"),
        (FACTORIAL, lambda f: (f.value("infer", 0), "B", 9), "an input or output is a tape"),
        (FACTORIAL, lambda f: (f.value("infer", 0), "B", 1), "its function takes other operands"),
        (FACTORIAL, lambda f: (f.value("infer", 1), "B", 5), "its function gives other results"),
    ],
)
def test_control_flow_that_does_not_fit_its_sub_graphs_is_refused(
    forger: Forger, change: Callable[[Forger], Change], words: str
) -> None:
    lite.load(with_hashes(forger.file))
    with pytest.raises(lite.LiteError, match=words):
        lite.load(forger.forged(*change(forger)))


def test_sizes_that_do_not_fit_a_sub_graph_are_refused_before_anything_runs() -> None:
    x = Value((2,), name="x")
    body = Graph.trace(lambda v: (v + 1.0,), Value((2,)))
    always = Graph.trace(lambda v: (OPS["is_nan"](OPS["reduce_sum"](v, axes=(0,))),), Value((2,)))
    loop = OPS["while_loop"](x, condition=always, body=body)
    f = Forger(model_file.write(Model({"infer": Graph((x,), loop)})))
    one = next(i for i in range(f.index.PoolLength()) if f.index.Pool(i) == 1)
    other = lite.load(f.forged(f.value("infer", 1) + 4, "I", one))
    with pytest.raises(lite.LiteError, match=r"^entry infer, node 0 \(while_loop .*do not fit"):
        other.planned_bytes("infer")
