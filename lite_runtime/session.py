"""Sessions: a model file that is open, with numpy arrays in and out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lite_runtime import _core
from lite_runtime._core import LiteError
from lite_runtime.profile import NodeTime, Profile
from lite_runtime.work import multiply_adds

DTYPES = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "i8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "bool": np.dtype(np.bool_),
    "f64": np.dtype(np.float64),
    "i16": np.dtype(np.int16),
}
KINDS = ("constant", "trainable", "state", "frozen")  # by number in model files
DEFAULT_ENTRY = "infer"
Array = np.ndarray


@dataclass(frozen=True)
class TensorInfo:
    """What an entry takes or gives. A size is a number, or the text of one that may vary."""

    name: str
    shape: tuple[int | str, ...]
    dtype: np.dtype

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype.name}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Event:
    """A node that ran: when, in nanoseconds, and which; `graph` and `node` count from 0."""

    start_ns: int
    end_ns: int
    entry: int
    graph: int
    node: int


@dataclass(frozen=True)
class WeightInfo:
    """A weight of a model. `kind`: constant, trainable, state or frozen."""

    name: str
    kind: str
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def size_bytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


def load(
    model: str | os.PathLike[str] | bytes | bytearray | memoryview,
    threads: int = 2,
    backend: str = "auto",
    *,
    check_finite: bool = False,
    most_memory: int = 0,
    most_steps: int = 0,
    timeout_s: float = 0.0,
    most_depth: int = 100_000,
) -> Session:
    """Open a model: the path of a file, which is mapped, or the bytes of one, which are copied.

    `backend`: "auto", or an instruction set ("ref", "avx2", "avx512vnni", "neon" ...); "fp16",
    which "auto" never takes, multiplies in float16 where weights are.
    `check_finite`: stop at the first input or node's result that holds a NaN or an infinity; such
    a run changes no weight. Limits of a run, 0 = none: `most_memory`, bytes for results, frames and
    tapes; `most_steps`, nodes, those in loops counted each turn; `timeout_s`; `most_depth`,
    sub-graphs inside of each other, as in a recursion. Raises LiteError.
    """
    if isinstance(model, (bytes, bytearray, memoryview)):
        source: str | bytes = bytes(model)
    else:
        source = os.fspath(model)
    limits = (most_memory, most_steps, timeout_s, most_depth)
    return Session(_core.Session(source, threads, backend, check_finite, *limits))


class Session:
    """An open model. Threads may share one; its runs then happen one after the other."""

    def __init__(self, core: _core.Session) -> None:
        self._core = core
        self._names = core.entries()  # empty ones are sub-graphs
        self._numbers = {name: i for i, name in enumerate(self._names) if name}
        self._weights = [
            WeightInfo(name, KINDS[kind], tuple(shape), DTYPES[dtype])
            for name, kind, dtype, shape in core.weights()
        ]
        self._infos: dict[int, tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]]] = {}

    def __repr__(self) -> str:
        return f"<lite_runtime.Session of {', '.join(self._numbers)}>"

    @property
    def entries(self) -> list[str]:
        """The names of the entry points."""
        return list(self._numbers)

    def inputs(self, entry: str | None = None) -> tuple[TensorInfo, ...]:
        """What an entry takes, in order."""
        return self._info(self._number(entry))[0]

    def outputs(self, entry: str | None = None) -> tuple[TensorInfo, ...]:
        """What an entry gives, in order."""
        return self._info(self._number(entry))[1]

    def input_shapes(self, entry: str | None = None) -> tuple[tuple[int, ...], ...]:
        """The shapes of an entry's inputs at the present sizes of the free dimensions."""
        number, first = self._number(entry), len(self._weights)
        values = self._core.values(number, 0)
        return tuple(tuple(row[2]) for row in values[first : first + len(self._info(number)[0])])

    def output_ids(self, entry: str | None = None) -> tuple[int, ...]:
        """The tensors that are an entry's outputs, by the ids that `nodes` names."""
        return tuple(self._core.output_ids(self._number(entry)))

    def entry_name(self, entry: str | None = None) -> str:
        """The entry that is meant where none is named."""
        return self._names[self._number(entry)]

    @property
    def metadata(self) -> dict[str, str]:
        """What the file says about the model."""
        return dict(self._core.metadata())

    @property
    def symbols(self) -> dict[str, tuple[int, int]]:
        """The free dimensions: name -> smallest and largest size."""
        return {name: (low, high) for name, low, high in self._core.symbols()}

    def run(self, inputs: Any, entry: str | None = None) -> Any:
        """Run an entry ("infer", or the first one, where none is named).

        One array in: one array out where the entry gives one, else a dict by name. A dict of arrays
        by name in: a dict of arrays by name out. Raises LiteError.
        """
        number = self._number(entry)
        takes, gives = self._info(number)
        arrays = self._run(number, takes, inputs)
        if len(arrays) == 1 and not _by_name(inputs):
            return arrays[0]
        return {info.name: y for info, y in zip(gives, arrays, strict=True)}

    def run_arrays(self, arrays: Sequence[Array], entry: str | None = None) -> list[Array]:
        """Run an entry on C-contiguous arrays of its inputs' types, in their order; its outputs in
        order. Nothing is converted and nothing looked up by name: for what calls very often."""
        return self._core.run(self._number(entry), arrays)

    def train_run(
        self, steps: int, feeder: Callable[[int], Any], entry: str | None = "train"
    ) -> Array:
        """Run an entry up to `steps` times in one call; float32 [n]: the first output of each run.

        `feeder(step)` gives the inputs of a step as `run` takes them, a dict by name; or the name
        of another entry to run and its inputs, as gradient accumulation does; or None, and the
        training ends. It may use the session in between. Raises what the feeder raises, or
        LiteError, which names the step, where one fails or `cancel` stops it: weights are then
        those after the steps before it.
        """
        first = self._number(entry)

        def feed(step: int) -> tuple[int, list[Array]] | None:
            given = feeder(step)
            if given is None:
                return None
            number = first
            if isinstance(given, tuple):
                number, given = self._number(given[0]), given[1]
            return number, self._arrays(self._info(number)[0], given)

        return np.array(self._core.train_run(first, steps, feed), np.float32)

    def cancel(self) -> None:
        """Stop the run that another thread is in, or else the next one: it raises LiteError."""
        self._core.cancel()

    def profile(self, inputs: Any, entry: str | None = None, *, runs: int = 10) -> Profile:
        """Run an entry `runs` times, after one time that is not counted, and time each node,
        those of sub-graphs too."""
        number = self._number(entry)
        takes, _ = self._info(number)
        self._run(number, takes, inputs)
        self._core.profile(True)
        try:
            for _ in range(runs):
                self._run(number, takes, inputs)
            return Profile(tuple(n for graph in self.graph_nodes(entry, runs) for n in graph), runs)
        finally:
            self._core.profile(False)

    def trace(self, capacity: int) -> tuple[list[Event], int]:
        """Write down each node that ends from now on, up to `capacity` of them; 0 ends it. Gives
        what was written since the last call, and how many nodes there was no room for."""
        events, lost = self._core.trace(capacity)
        return [Event(*row) for row in events], lost

    @property
    def weight_infos(self) -> tuple[WeightInfo, ...]:
        """Every weight of the file, constants among them."""
        return tuple(self._weights)

    def weights(self, trainable: bool = False) -> dict[str, Array]:
        """Copies of the weights by name: all but constants, or the trainable ones alone."""
        kinds = ("trainable",) if trainable else ("trainable", "state", "frozen")
        return {
            w.name or f"weight{i}": self._core.weight(i)
            for i, w in enumerate(self._weights)
            if w.kind in kinds
        }

    def set_weights(self, weights: Mapping[str, Any]) -> None:
        """Replace trainable weights or state by name: all that are given, or on an error none."""
        numbers = {
            w.name: i for i, w in enumerate(self._weights) if w.kind in ("trainable", "state")
        }
        checked = []
        for name, data in weights.items():
            if name not in numbers:
                raise LiteError(
                    f"weight {name}: not one that can be set; those are {_list(numbers)}"
                )
            want = self._weights[numbers[name]]
            array = _converted(data, want.dtype, "weight", name)
            if array.shape != want.shape:
                raise LiteError(
                    f"weight {name}: shape {_shape(array.shape)}, want {_shape(want.shape)}"
                )
            checked.append((numbers[name], array))
        for number, array in checked:
            self._core.set_weight(number, array)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model's file with the weights of today; it is not signed any more."""
        self._core.save(os.fspath(path))

    def to_bytes(self) -> bytes:
        """The file that `save` would write."""
        return self._core.save_memory()

    def resize(self, sizes: Mapping[str, int]) -> None:
        """Plan all entries for other sizes of free dimensions; inputs of other sizes do so too."""
        for name, size in sizes.items():
            if not isinstance(size, (int, np.integer)) or not -(2**31) <= size < 2**31:
                raise LiteError(f"{name} = {size!r}: want an integer below 2^31")
        self._core.resize([(name, int(size)) for name, size in sizes.items()])

    def planned_bytes(self, entry: str | None = None) -> int:
        """Bytes of memory that a run of the entry wants at the present sizes, beside weights."""
        return self._core.memory(self._number(entry))[0]

    def least_bytes(self, entry: str | None = None) -> int:
        """The most bytes that are in use at one node: no plan of memory can do with less."""
        return self._core.memory(self._number(entry))[1]

    def peak_bytes(self, entry: str | None = None) -> int:
        """Bytes of memory that the last run of the entry took at most, tapes included; 0 before."""
        return self._core.memory(self._number(entry))[2]

    def weight_bytes(self, entry: str | None = None) -> int:
        """Bytes of all weights, and of what kernels packed of them in the entries planned so far:
        this one and those that have run."""
        return self._core.memory(self._number(entry))[3]

    def nodes(self, entry: str | None = None) -> tuple[NodeTime, ...]:
        """The nodes of an entry, in the order in which they run."""
        return tuple(self._node_times(self._number(entry), 0))

    def value_bytes(self, entry: str | None = None) -> tuple[int, ...]:
        """The size of every tensor of an entry, by the ids that `nodes` names."""
        return tuple(row[3] for row in self._core.values(self._number(entry), 0))

    def graph_nodes(self, entry: str | None = None, runs: int = 0) -> list[list[NodeTime]]:
        """The nodes of each graph of an entry: its own first, then those that control flow runs.
        Times are means of `runs` runs."""
        number = self._number(entry)
        parts = enumerate(self._core.graphs(number))
        return [self._node_times(number, runs, graph, part) for graph, part in parts]

    def _number(self, entry: str | None) -> int:
        if entry is None:
            entry = (
                DEFAULT_ENTRY if DEFAULT_ENTRY in self._numbers else next(iter(self._numbers), "")
            )
        if entry not in self._numbers:
            raise LiteError(f"entry {entry}: the model has {_list(self._numbers)}")
        return self._numbers[entry]

    def _info(self, number: int) -> tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]]:
        if number not in self._infos:
            takes, gives = (
                tuple(
                    TensorInfo(
                        name, tuple(int(s) if s.isdigit() else s for s in sizes), DTYPES[dtype]
                    )
                    for name, sizes, dtype in rows
                )
                for rows in (self._core.inputs(number), self._core.outputs(number))
            )
            self._infos[number] = takes, gives
        return self._infos[number]

    def _run(self, number: int, takes: tuple[TensorInfo, ...], inputs: Any) -> list[Array]:
        return self._core.run(number, self._arrays(takes, inputs))

    @staticmethod
    def _arrays(takes: tuple[TensorInfo, ...], inputs: Any) -> list[Array]:
        return [_converted(x, i.dtype, "input", i.name) for i, x in _matched(takes, inputs)]

    def _node_times(self, number: int, runs: int, graph: int = 0, part: str = "") -> list[NodeTime]:
        values = self._core.values(number, graph)
        return [
            NodeTime(
                op=op,
                kernel=kernel,
                source=source,
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                shape=tuple(values[outputs[0]][2]) if outputs else (),
                time_us=nanoseconds / 1e3 / max(runs, 1),
                read_bytes=sum(values[i][3] for i in inputs if i >= 0),
                written_bytes=sum(values[i][3] for i in outputs),
                multiply_adds=multiply_adds(
                    op,
                    [tuple(values[i][2]) if i >= 0 else () for i in inputs],
                    [tuple(values[i][2]) for i in outputs],
                ),
                scratch_bytes=scratch,
                graph=f"{part} {graph}" if graph else "",
                calls=calls / max(runs, 1),
            )
            for op, kernel, source, inputs, outputs, scratch, nanoseconds, calls in (
                self._core.nodes(number, graph)
            )
        ]


def _by_name(inputs: Any) -> bool:
    """Whether inputs are a dict by name. To ask whether an array is a mapping takes long."""
    return not isinstance(inputs, np.ndarray) and isinstance(inputs, Mapping)


def _matched(takes: tuple[TensorInfo, ...], inputs: Any) -> list[tuple[TensorInfo, Any]]:
    """Each input of an entry with what was given for it."""
    if not _by_name(inputs):
        if len(takes) != 1:
            raise LiteError(
                f"one array for {len(takes)} inputs; want a dict of {_list(i.name for i in takes)}"
            )
        return [(takes[0], inputs)]
    names = [i.name for i in takes]
    if unknown := [n for n in inputs if n not in names]:
        raise LiteError(f"input {unknown[0]}: no such input; want {_list(names)}")
    if missing := [n for n in names if n not in inputs]:
        raise LiteError(f"input {missing[0]} is missing; want {_list(names)}")
    return [(i, inputs[i.name]) for i in takes]


def _converted(data: Any, want: np.dtype, kind: str, name: str) -> Array:
    """`data` as an array of the wanted type: floats of another width, integers that fit, and for
    floats Python's own integers, which have no type. Raises LiteError for all else."""
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise LiteError(f"{kind} {name}: not an array ({error})") from None
    if array.dtype != want:
        kinds = array.dtype.kind, want.kind
        untyped = not hasattr(data, "dtype")
        fits = kinds[0] in "iu" and want.kind in "iu" and _fits(array, want)
        if kinds[0] in "iu" and want.kind in "iu" and not fits:
            worst = next(int(v) for v in (array.max(), array.min()) if not _fits(v, want))
            raise LiteError(f"{kind} {name}: {worst} does not fit {want.name}")
        if not (fits or kinds == ("f", "f") or (untyped and kinds == ("i", "f"))):
            raise LiteError(
                f"{kind} {name}: {array.dtype.name}{_shape(array.shape)}, want {want.name}"
            )
        with np.errstate(over="ignore"):
            array = array.astype(want)
    return np.asarray(array, order="C")


def _fits(array: Array, want: np.dtype) -> bool:
    limits = np.iinfo(want)
    return array.size == 0 or bool(limits.min <= array.min() and array.max() <= limits.max)


def _shape(shape: tuple[int, ...]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"


def _list(names: Any) -> str:
    return ", ".join(names) or "none"
