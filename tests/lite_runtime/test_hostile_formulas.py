"""Programs of formula in files that lie: refused when loaded or run, and no tensor is left."""

from __future__ import annotations

import struct

import pytest

import lite_runtime as lite
from ir import model_file
from ir.errors import AttrError, IrError, ShapeError
from ir.graph import Graph, Model, Value
from ir.op import OPS, Case
from tests.lite_runtime.forge import with_hashes

SAMPLES = list(OPS["formula"].samples)
WINDOW = next(c for c in SAMPLES if [s.shape for s in c.inputs if s] == [(3, 9)])


def file_of(case: Case) -> tuple[bytes, int, list[int]]:
    """A model of the sample alone, where its program lies, and the program."""
    inputs = tuple(Value(s.shape, name=f"x{i}") for i, s in enumerate(case.inputs) if s)
    node = OPS["formula"].node(inputs, case.attrs)
    file = model_file.write(Model({"infer": Graph(inputs, node.results)}))
    words = list(node.attrs["program"])
    packed = struct.pack(f"<{len(words)}i", *words)
    assert file.count(packed) == 1
    return file, file.index(packed), words


def forged(file: bytes, at: int, words: list[int]) -> bytes:
    out = bytearray(file)
    struct.pack_into(f"<{len(words)}i", out, at, *words)
    return with_hashes(bytes(out))


def run(file: bytes, case: Case) -> str:
    """What is said of the file; nothing where it runs."""
    try:
        session = lite.load(file)
        session.run({f"x{i}": a for i, a in enumerate(case.arrays()) if a is not None})
    except lite.LiteError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("number", range(len(SAMPLES)))
def test_no_changed_word_leads_out_of_the_tensors(number: int) -> None:
    case = SAMPLES[number]
    file, at, words = file_of(case)
    said = []
    for i, word in enumerate(words):
        for other in (-1, 0, 1, word + 1, word - 1, 2**20, 2**31 - 1, -(2**31)):
            said.append(run(forged(file, at, [*words[:i], other, *words[i + 1 :]]), case))
    assert run(file, case) == ""
    assert sum(map(bool, said)) > len(said) // 2
    assert all("\n" not in s for s in said)


def test_the_reader_of_files_refuses_what_the_runtime_does() -> None:
    """Whatever Python reads, the runtime may run or refuse; what Python refuses, it refuses too."""
    file, at, words = file_of(WINDOW)
    for i, word in enumerate(words):
        for other in (-1, word + 1, 2**31 - 1):
            changed = forged(file, at, [*words[:i], other, *words[i + 1 :]])
            try:
                model_file.read(changed)
            except IrError:
                assert run(changed, WINDOW) != ""


def test_an_index_that_leaves_its_tensor_ends_the_run() -> None:
    """Every row is checked, for bounds depend on numbers of other loops."""
    file, at, words = file_of(WINDOW)
    shifted = [i for i, w in enumerate(words) if run(forged(file, at, _plus(words, i, 40)), WINDOW)]
    assert shifted
    assert any("formula" in run(forged(file, at, _plus(words, i, 40)), WINDOW) for i in shifted)


def test_loops_that_would_not_end_are_refused() -> None:
    """A sum of a few terms, in a file that says 2^31 - 1."""

    def words(last: int) -> tuple[int, ...]:
        return (0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 1, last, 0, 1, 0, 2, 0, 0, 0, 0, 0)

    case = Case(WINDOW.inputs[:1], {"program": words(7)})
    file, at, few = file_of(case)
    assert run(file, case) == ""
    assert tuple(few) == words(7)
    assert "formula" in run(forged(file, at, list(words(2**31 - 1))), case)
    with pytest.raises(ShapeError, match="formula: loops of 2147483648 points, want at most"):
        OPS["formula"].node([Value((3, 9))], {"program": words(2**31 - 1)})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "the program ends here"),
        ((3, 0, 0, 0), "3, want 0 to 2"),
        ((0, 9, 0, 0), "9, want 0 to 8"),
        ((0, 0, 9, 0), "9, want 0 to 8"),
        ((0, 0, 0, 0, 7), "words that nothing reads"),
        ((0, 0, 1, 3, 1, 0, 1, 0), "1, want 0 to 0"),
        ((0, 0, 0, 1, 15), "15, want 0 to 14"),
        ((0, 0, 0, 1, 1, 0, 0, 0), "0, want 1 to 64"),
        ((0, 0, 0, 1, 0, 0, 0, 2, 0, 2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0),
         "an empty body on 2 loads"),
        ((0, 0, 0, 1, 0, 0, 0, 1, -1, 2, 0, 0, 0, 0, 0), "a number of 2 rows, want 1"),
        ((0, 0, 0, 1, 1, 1, 0, 1, 1, 1, 0, 0, 1, 8, 0, 1, 0, 2, 0, 0, 0, 0, 0),
         r"places that loops \[0\] do not tell apart"),
        ((0, 0, 1, 9, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 8, 0, 0, 1, 0, 1, 1, 0, 2, 0, 0, 0, 0, 0),
         "a place that depends on a loop that is summed over"),
    ],
)  # fmt: skip
def test_python_names_what_is_wrong_with_a_program(words: tuple[int, ...], message: str) -> None:
    with pytest.raises(AttrError, match=rf"formula: word \d+ of \d+: {message}"):
        OPS["formula"].node([Value((3, 9))], {"program": words})


def _plus(words: list[int], i: int, more: int) -> list[int]:
    return [*words[:i], words[i] + more, *words[i + 1 :]]
