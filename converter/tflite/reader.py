"""TFLite → graph: walk the operators in order and let `rules` say what each becomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import ConvertError, UnsupportedError
from converter.items import RULE_ERRORS, SMALL, Item, Shapes, identifier, narrow
from converter.tflite.file import Operator, Signature, Subgraph, Tensor, TfliteFile, parse_tflite
from converter.tflite.rules import MOVES, PLAIN, RULES, STORED, Call, Reader
from converter.tflite.rules.common import (
    UNSIGNED,
    as_int8,
    as_value,
    dequantized,
    is_scaled,
    is_stored,
    is_wide,
    no_nan,
    plain,
    real,
    stored,
)
from converter.tflite.rules.elementwise import plain_type
from converter.tflite.rules.elementwise_int8 import flipped
from ir.dtype import DType
from ir.graph import Array, Graph, Model, Value
from ir.op import OPS, from_source
from ir.symbol import symbol
from lite_runtime.files import read_file

MOST_DEPTH = 64  # graphs inside of each other
MOST_NODES = 1 << 18  # operators read in all, those of graphs that are read more than once too
MOST_TEXT = 200  # letters of what a file says of its maker
MAIN = "serving_default"
# Metadata of a model with weights of 8 bits behind floats, which TFLite rounds in each run.
DYNAMIC = "tflite.dynamic_range"
WIDE = "tflite.activations"
LAYERS = (
    "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "BATCH_MATMUL", "RNN", "SVDF",
    "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN",
)  # fmt: skip


def read_tflite(source: Any, shapes: Shapes | None = None, outputs: Sequence[str] = ()) -> Model:
    """The model's main graph as entry `infer`, and one entry for each other signature. `source`: a
    path or bytes.

    Sizes that the file leaves free stay free where the graph allows it, else they are those that
    the file was made with. Numbers without a sign are so outside only. `shapes` replaces input
    shapes, `outputs` cuts the graph at tensors. Raises ConvertError, or UnsupportedError that lists
    every operator without a rule.
    """
    data = read_file(source) if isinstance(source, (str, Path)) else bytes(source)
    try:
        file = parse_tflite(data)
    except ConvertError as e:
        name = source if isinstance(source, (str, Path)) else "model"
        raise ConvertError(f"{name}: not a TFLite model ({e})") from None
    entries = entries_of(file)
    _refuse_unknown(_cut(file, entries["infer"], outputs), [s.subgraph for s in entries.values()])
    main = file.subgraphs[entries["infer"].subgraph]
    is_free = any(-1 in main.tensors[i].signature for i in main.inputs)
    with from_source(""):
        try:
            return _read(file, entries, shapes or {}, outputs, is_free)
        except ConvertError:
            if not is_free:
                raise
            return _read(file, entries, shapes or {}, outputs, False)


def entries_of(file: TfliteFile) -> dict[str, Signature]:
    """Which signature becomes which entry. `infer` is serving_default, or the first graph."""
    found = {s.key: s for s in file.signatures}
    first = next((s for s in file.signatures if s.subgraph == 0), None)
    main = found.get(MAIN) or first or Signature("", 0, [], [])
    others = {k: s for k, s in found.items() if s is not main and k and k != "infer"}
    return {"infer": main, **others}


def _read(
    file: TfliteFile, entries: Mapping[str, Signature], shapes: Shapes,
    outputs: Sequence[str], free: bool,
) -> Model:  # fmt: skip
    reader = FileReader(file=file)
    graphs = {}
    for name, signature in entries.items():
        asked = (shapes, outputs) if name == "infer" else ({}, ())
        graphs[name] = _entry(reader, signature, *asked, free)
    producer = "".join(c for c in file.description if c.isprintable())
    metadata = {"source": f"tflite version {file.version}", "producer": producer[:MOST_TEXT]}
    metadata[DYNAMIC] = "weights of 8 bits" if reader.is_dynamic else ""
    tensors = [t for g in file.subgraphs for t in g.tensors if t.data is not None]
    kept = ["8 bits"] if reader.is_dynamic else []
    kept += ["16 bits"] if any(t.element == np.float16 for t in tensors) else []
    metadata[SMALL] = ", ".join(sorted(kept))
    metadata[WIDE] = "16 bits" if any(is_wide(t) for g in file.subgraphs for t in g.tensors) else ""
    return Model(graphs, {k: v for k, v in metadata.items() if v})


def _entry(
    reader: FileReader, signature: Signature, shapes: Shapes, outputs: Sequence[str], free: bool
) -> Graph:
    graph = reader.file.subgraphs[signature.subgraph]
    names = names_of(graph, signature)
    wanted = wanted_tensors(graph, names, outputs)
    given = [names[i] for i in graph.inputs]
    if unknown := set(shapes) - set(given):
        raise ConvertError(f"no input {sorted(unknown)}; has {given}")
    reader.current = dict(reader.variables)
    inputs, env = [], {}
    for i in graph.inputs:
        t = graph.tensors[i]
        v = _input(t, names[i], shapes.get(names[i]), free)
        inputs.append(v)
        env[i] = _inside(v, t)
    needed = {i for _, i in wanted}
    reader.walk(signature.subgraph, env, _needed(graph, needed))
    results = [_outside(reader.item(graph, env, i), graph.tensors[i]) for _, i in wanted]
    updates = [
        (w, OPS["assign"](w, reader.current[name]))
        for name, w in reader.variables.items()
        if reader.current.get(name, w) is not w
    ]
    return Graph(tuple(inputs), tuple(results), tuple(n for n, _ in wanted), tuple(updates))


def names_of(graph: Subgraph, signature: Signature) -> dict[int, str]:
    """Names of a graph's tensors, each once: those of the signature for inputs and outputs."""
    called = {i: name for name, i in (*signature.inputs, *signature.outputs) if name}
    ends = {**{i: t.name for i, t in enumerate(graph.tensors)}, **called}
    names: dict[int, str] = {}
    taken: set[str] = set()
    last: dict[str, int] = {}  # the number that a name was given last
    for i in (*graph.inputs, *graph.outputs, *range(len(graph.tensors))):
        if i not in names:
            base = ends[i] or f"tensor{i}"
            name, n = base, last.get(base, 1)
            while name in taken:
                n += 1
                name = f"{base}_{n}"
            last[base] = n
            names[i] = name
            taken.add(name)
    return names


def wanted_tensors(
    graph: Subgraph, names: Mapping[int, str], outputs: Sequence[str]
) -> list[tuple[str, int]]:
    """The outputs by name: the graph's own, or those that are asked for."""
    if not outputs:
        once = dict.fromkeys(graph.outputs)
        return [(names[i], i) for i in once]
    places = {name: i for i, name in names.items()}
    made = {names[i] for op in graph.operators for i in op.outputs}
    if unknown := [o for o in outputs if o not in made]:
        raise ConvertError(f"no output {unknown}; there are {', '.join(sorted(made)) or 'none'}")
    return [(o, places[o]) for o in outputs]


def _needed(graph: Subgraph, wanted: set[int]) -> list[tuple[int, Operator]]:
    """The operators that the wanted tensors depend on, and all that write variables."""
    needed = set(wanted)
    found = []
    for i, op in reversed(list(enumerate(graph.operators))):
        writes = not op.outputs or any(graph.tensors[t].is_variable for t in op.inputs if t >= 0)
        if writes or needed.intersection(op.outputs):
            needed.update(op.inputs)
            found.append((i, op))
    return found[::-1]


def _cut(file: TfliteFile, main: Signature, outputs: Sequence[str]) -> TfliteFile:
    """The file without the operators of its main graph that lie behind the outputs asked for."""
    if not outputs:
        return file
    graph = file.subgraphs[main.subgraph]
    wanted = wanted_tensors(graph, names_of(graph, main), outputs)
    kept = [op for _, op in _needed(graph, {i for _, i in wanted})]
    graphs = list(file.subgraphs)
    graphs[main.subgraph] = replace(graph, operators=kept)
    return replace(file, subgraphs=graphs)


def _refuse_unknown(file: TfliteFile, starts: Sequence[int]) -> None:
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for number in sorted(_reached(file, starts)):
        graph = file.subgraphs[number]
        for i, op in enumerate(graph.operators):
            if op.name not in RULES:
                counts[op.name] += 1
                name = graph.tensors[op.outputs[0]].name if op.outputs else ""
                first.setdefault(op.name, name or f"operator {i} of graph {number}")
    if counts:
        texts = [f"{kind} ×{n} (first: {first[kind]})" for kind, n in sorted(counts.items())]
        raise UnsupportedError("unsupported operators: " + ", ".join(texts))


def _reached(file: TfliteFile, starts: Sequence[int]) -> set[int]:
    found: set[int] = set()
    stack = list(starts)
    while stack:
        number = stack.pop()
        if number in found:
            continue
        found.add(number)
        for op in file.subgraphs[number].operators:
            inner = [v for k, v in op.attrs.items() if k.endswith("subgraph")]
            if any(not 0 <= i < len(file.subgraphs) for i in inner):
                raise ConvertError(f"{op.name} runs graph {inner} of {len(file.subgraphs)}")
            stack += inner
    return found


def _input(t: Tensor, name: str, asked: Sequence[int | str] | None, free: bool) -> Value:
    if t.element is None:
        raise ConvertError(f"input {name!r}: {t.problem or 'a variable'}, want numbers")
    if t.problem:
        raise ConvertError(f"input {name!r}: {t.problem}, which is not supported")
    dims: Sequence[int | str] = asked or [
        n if s != -1 or not free else _free_name(name, i)
        for i, (s, n) in enumerate(zip(t.signature, t.shape, strict=True))
    ]
    if any(isinstance(d, int) and d < 1 for d in dims):
        raise ConvertError(f"input {name!r} has shape {list(dims)}; want sizes of at least 1")
    kept = _byte(t) or is_wide(t)
    dtype = DType.of(np.zeros(0, t.element)) if kept else plain_type(t.element)
    return Value([d if isinstance(d, int) else symbol(d) for d in dims], dtype, name=name)


def _byte(t: Tensor) -> bool:
    return t.element is not None and t.element.kind in "iu" and t.element.itemsize == 1


def _free_name(name: str, axis: int) -> str:
    if axis == 0:
        return "batch"
    return f"{identifier(name)}_{axis}"


def _inside(v: Value, t: Tensor) -> Item:
    """A graph's input in the form that rules take (`rules.common`)."""
    if is_stored(t) and t.element == UNSIGNED:
        return flipped(OPS["cast"](v, to="i8"))
    return v


def _outside(item: Item, t: Tensor) -> Value:
    """The inverse of `_inside`, for an output."""
    v = as_value(item)
    if is_stored(t) and t.element == UNSIGNED:
        return OPS["cast"](as_value(flipped(v)), to="u8")  # type: ignore[no-any-return]
    return v


@dataclass
class FileReader(Reader):
    """The reader of one file; graphs that operators run are read where they are run."""

    file: TfliteFile = field(default_factory=lambda: TfliteFile(0, "", []))
    depth: int = 0
    count: int = 0

    def walk(
        self, number: int, env: dict[int, Any], operators: Sequence[tuple[int, Operator]]
    ) -> None:
        """Apply operators; `env` has the items of tensors that are there, and gets theirs."""
        graph = self.file.subgraphs[number]
        self.count += len(operators)
        if self.count > MOST_NODES or self.depth > MOST_DEPTH:
            raise ConvertError(
                f"graphs inside of graphs: {self.count} operators, {self.depth} deep; want at most "
                f"{MOST_NODES} and {MOST_DEPTH}"
            )
        for i, op in operators:
            self._apply(graph, i, op, env)

    def run_graph(self, number: int, items: Sequence[Item]) -> list[Item]:
        graph = self.file.subgraphs[number]
        if len(items) != len(graph.inputs):
            raise ConvertError(f"graph {number} takes {len(graph.inputs)} values, got {len(items)}")
        env: dict[int, Any] = dict(zip(graph.inputs, items, strict=True))
        self.depth += 1
        try:
            self.walk(number, env, _needed(graph, set(graph.outputs)))
        finally:
            self.depth -= 1
        return [self.item(graph, env, i) for i in graph.outputs]

    def passed_on(self, number: int) -> list[bool]:
        graph = self.file.subgraphs[number]
        return [a == b for a, b in zip(graph.inputs, graph.outputs, strict=True)]

    def item(self, graph: Subgraph, env: dict[int, Any], i: int) -> Any:
        """What tensor i stands for by now."""
        if i < 0:
            return None
        if i not in env:
            env[i] = self._constant(graph.tensors[i], i)
        return env[i]

    def _constant(self, t: Tensor, i: int) -> Any:
        if t.problem:
            raise ConvertError(f"tensor {t.name!r}: {t.problem}, which is not supported")
        if t.data is None:
            if t.is_variable:
                return None  # rules of recurrent layers ask for it by name
            raise ConvertError(f"tensor {i} {t.name!r} is read, but nothing before makes it")
        if t.data.dtype.kind == "f":
            return self._floats(no_nan(narrow(t.data), t), t)
        if is_stored(t):
            return as_int8(t.data)
        return t.data if is_wide(t) else plain(t.data)

    def _floats(self, array: Array, t: Tensor) -> Item:
        """A weight where it has more than one element, the same one for the same bytes."""
        if array.size < 2:
            return array
        return self.weight(array, t.name, (t.buffer, t.name, t.shape))

    def _apply(self, graph: Subgraph, i: int, op: Operator, env: dict[int, Any]) -> None:
        outs = [graph.tensors[o] for o in op.outputs]
        call = Call(op, [None if t < 0 else graph.tensors[t] for t in op.inputs], outs)
        source = outs[0].name if outs else ""
        where = f"operator {i} {op.name} {source!r}"
        try:
            with from_source(source or where):
                results = apply_rule(self, call, [self.item(graph, env, t) for t in op.inputs])
        except ConvertError as e:
            raise type(e)(f"{where}: {e}") from None
        except RULE_ERRORS as e:
            reason = " ".join(str(e).split())
            raise ConvertError(f"{where}: {type(e).__name__}: {reason}") from e
        ends = dict(zip(op.outputs, results, strict=False))
        env |= zip(ends, self.name_nodes([*ends.values()], source or where), strict=True)


def apply_rule(reader: Reader, call: Call, items: list[Any]) -> list[Any]:
    """The operator's results in the form of its output tensors."""
    name = call.name
    for t in call.outs:
        if t.problem:
            raise ConvertError(f"result {t.name!r}: {t.problem}, which is not supported")
    if name in MOVES:
        return _listed(MOVES[name](reader, call, *items))
    if any(map(is_scaled, (*call.ins, *call.outs))) and name in STORED:
        found = STORED[name](reader, call, *items)
        if found is not None:
            return _listed(found)
    if name not in PLAIN:
        raise ConvertError("has no rule for these types")
    if name in LAYERS and all(t.scales is None for t in (call.input(0), *call.outs)):
        reader.is_dynamic |= any(map(is_stored, call.ins))
    taken = [_taken(reader, x, t) for x, t in zip(items, call.ins, strict=True)]
    made = _listed(PLAIN[name](reader, call, *taken))
    return [stored(y, t) for y, t in zip(made, call.outs, strict=False)]


def _taken(reader: Reader, item: Any, t: Tensor | None) -> Any:
    """An input as real numbers; a stored constant becomes a weight."""
    if not isinstance(item, np.ndarray) or t is None or t.scales is None:
        return real(item, t)
    if item.dtype.kind == "f":
        return item
    array = dequantized(item, t)
    if array.size < 2:
        return array
    return reader.weight(array, t.name, (t.buffer, t.name, t.shape, "real"))


def _listed(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (list, tuple)) else [found]
