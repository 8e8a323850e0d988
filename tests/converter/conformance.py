"""The node tests of the package `onnx` through the converter and the runtime: `make conformance`
runs all of them and writes docs/operators.md and the list of those that pass.

A test is a model of one operator, inputs, and what must come out. Taken are those whose inputs and
outputs are tensors of float32, float64, int32, int64, int8, uint8 or bool, sequences of these or
optional ones, without the copies that ONNX writes out as other operators ("expanded").
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import lite_runtime as lite
from converter import ConvertError
from converter.items import Shapes
from converter.onnx.ends import tensors_of
from converter.onnx.reader import read_onnx
from converter.passes import LAST_PASSES, PASSES
from ir import model_file
from ir.errors import IrError
from ir.files import write_whole
from ir.graph import Model

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/operators.md"
PASSED = Path(__file__).with_name("conformance.txt")
TYPES = {1: "float32", 2: "uint8", 3: "int8", 6: "int32", 7: "int64", 9: "bool", 11: "float64"}
LONGEST_REASON = 100


@cache
def node_tests() -> dict[str, Any]:
    """The tests by name."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():  # those that computing the expected values gives
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    return {t.name: t for t in found if "_expanded" not in t.name and _is_plain(t.model.graph)}


def operator_of(test: Any) -> str:
    """The operator that a test is of: the one that its name begins with, or its last node's."""
    kinds = [n.op_type for n in test.model.graph.node]
    flat = test.name.replace("_", "").removeprefix("test")
    named = [k for k in kinds if flat.startswith(k.lower())]
    return str(named[0] if named else kinds[-1])


def attempt(test: Any) -> str:
    """Empty where a test passes, else why it does not."""
    try:
        shapes = _shapes(test)
        session = lite.load(converted(test.model, shapes), threads=1)
        for inputs, outputs in test.data_sets:
            got = session.run(_ends(test.model.graph.input, inputs), entry="infer")
            wanted = _ends(test.model.graph.output, outputs)
            if got.keys() != wanted.keys():
                return f"outputs {', '.join(got)}, want {', '.join(wanted)}"
            for name, want in wanted.items():
                if reason := difference(got[name], want, test.rtol, test.atol):
                    return f"{name}: {reason}"
    except (ConvertError, IrError, lite.LiteError) as e:
        return str(e)
    return ""


def converted(proto: Any, shapes: Shapes | None = None) -> bytes:
    """The file that `convert` would write; what is right is for the tests to say."""
    with np.errstate(all="ignore"):
        model = read_onnx(proto, shapes)
        graph = model.entries["infer"]
        for run in (*PASSES, *LAST_PASSES):
            graph = run(graph)
    return model_file.write(Model({"infer": graph}, model.metadata))


def difference(got: np.ndarray, want: np.ndarray, rtol: float, atol: float) -> str:
    """Empty where two arrays agree, by the rule of ONNX's own runner of these tests."""
    if got.dtype != want.dtype:
        return f"{got.dtype}, want {want.dtype}"
    if got.shape != want.shape:
        return f"{list(got.shape)}, want {list(want.shape)}"
    if np.allclose(got, want, rtol=rtol, atol=atol, equal_nan=True):
        return ""
    with np.errstate(all="ignore"):
        off = np.abs(got.astype(np.float64) - want.astype(np.float64))
    return f"off by {np.nanmax(off):.3g} at most"


def run(names: Sequence[str], processes: int = 2) -> dict[str, str]:
    """Each test's name, and why it fails."""
    node_tests()  # before there are processes, which share it
    with ProcessPoolExecutor(processes) as pool:
        return dict(zip(names, pool.map(_attempt, names, chunksize=16), strict=True))


def page(found: Mapping[str, str]) -> str:
    """docs/operators.md of all results."""
    by_operator: dict[str, dict[str, str]] = defaultdict(dict)
    for name, reason in found.items():
        by_operator[operator_of(node_tests()[name])][name] = reason
    passed = sum(not r for r in found.values())
    rows = [_row(op, by_operator[op]) for op in sorted(by_operator)]
    whole = sum(not any(r.values()) for r in by_operator.values())
    return "\n".join(
        [
            "# ONNX operators, and what ONNX's own tests say",
            "",
            "Written by `make conformance`: the node tests of the package `onnx` whose tensors,",
            f"also in sequences, are {', '.join(TYPES.values())}, each converted and run on",
            "`lite_runtime`, with the tests' own tolerances, types and shapes. "
            "(Tests that are written",
            "out as other operators are not counted.)",
            "",
            f"**{passed} of {len(found)} pass; of {len(by_operator)} operators {whole} pass all.**",
            "",
            "| operator | pass | of | what fails, and why |",
            "|---|--:|--:|---|",
            *rows,
            "",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", metavar="PATTERN", help="names; nothing is written")
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args(arguments)
    names = [n for n in node_tests() if fnmatch.fnmatch(n, args.only or "*")]
    found = run(names, args.processes)
    for name, reason in found.items():
        if reason:
            print(f"{name}: {reason}")
    print(f"{sum(not r for r in found.values())} of {len(found)} pass")
    if not args.only:
        write_whole(PAGE, page(found).encode())
        write_whole(PASSED, "".join(f"{n}\n" for n in _passed(found)).encode())
    return 0


def _attempt(name: str) -> str:
    return attempt(node_tests()[name])


def _ends(infos: Iterable[Any], values: Iterable[Any]) -> dict[str, Any]:
    """Arrays by name, the elements of sequences one by one. Some tests give ONNX's own tensors, and
    nothing for an optional value that is not there."""
    from onnx import TensorProto, numpy_helper

    found: dict[str, Any] = {}
    for info, value in zip(infos, values, strict=True):
        if isinstance(value, TensorProto):
            value = numpy_helper.to_array(value)
        if isinstance(value, list):
            found |= {f"{info.name}.{i}": np.asarray(v) for i, v in enumerate(value)}
        elif value is not None:
            found[info.name] = value
    return found


def _shapes(test: Any) -> Shapes:
    """Those of the inputs that a sequence's elements are: the model does not say how many."""
    inputs = test.data_sets[0][0]
    lists = [(v, x) for v, x in zip(test.model.graph.input, inputs, strict=True) if type(x) is list]
    names = _ends(*zip(*lists, strict=True)) if lists else {}
    return {n: x.shape for n, x in names.items()} | {v.name: () for v, x in lists if not x}


def _passed(found: Mapping[str, str]) -> Iterable[str]:
    return sorted(name for name, reason in found.items() if not reason)


def _row(op: str, found: Mapping[str, str]) -> str:
    reasons: dict[str, list[str]] = defaultdict(list)
    for name, reason in found.items():
        if reason:
            reasons[_short(reason)].append(name.removeprefix("test_"))
    texts = [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]
    passed = sum(not r for r in found.values())
    return f"| {op} | {passed} | {len(found)} | {'; '.join(texts)} |"


def _short(reason: str) -> str:
    """A reason as a cell of a table, without the node's place: there is but one."""
    text = " ".join(reason.split("'': ")[-1].split()).replace("|", "/")
    return text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 1] + "…"


def _is_plain(graph: Any) -> bool:
    return all(tensors_of(v.type)[0].elem_type in TYPES for v in (*graph.input, *graph.output))


if __name__ == "__main__":
    sys.exit(main())
