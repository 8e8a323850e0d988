"""From a source model to a checked `.ms` file: read, optimise, quantize, add training, compare."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from converter import check
from converter.budget import within_memory
from converter.errors import ConvertError, Disagreement, SourceTimeout
from converter.explain import Provenance, rows
from converter.items import SMALL
from converter.lineage import lineage
from converter.memory import promises
from converter.onnx.reader import parse
from converter.options import Arrays, Options
from converter.passes import LAST_PASSES, PASSES, Pass, find_int8, with_allowed, with_stored
from converter.passes.keep_stored import keep_all_stored
from converter.quantization import TOLERANCE, Found
from converter.quantization import quantized as quantized_graph
from converter.report import Agreement, Report, count_int8, count_nodes
from converter.source import Source, bytes_of, name_of, program_of, read
from converter.tflite.litert import OPTIMISED, litert_answers
from converter.tflite.reader import DYNAMIC, WIDE
from converter.torch_reader import answers, to_onnx
from converter.training import TrainSpec, add_training, choose_weights
from ir import model_file
from ir.errors import IrError
from ir.files import write_whole
from ir.graph import Array, Graph, Model
from ir.passes import applied
from ir.walk import walk

OWN = "the numpy interpreter"  # as a reference
WIDE_TOLERANCE = 1e-3  # of activations of 16 bits, where kernels round in ways of their own


def convert(
    source: Source, target: str | Path, *, passes: Sequence[Pass] = PASSES, **options: Any
) -> Report:
    """Convert `source` to the file `target`.

    `source`: a path, the bytes of a model, an ir.Model or a torch.export.ExportedProgram. Options
    are the fields of `Options`. The file is written only if it loads again and its `infer` entry
    agrees with the source on `check` inputs. Raises ConvertError; then nothing is written.
    """
    start = time.perf_counter()
    asked = Options(**options)
    _check_target(source, Path(target))
    with _one_error(source):
        report, data = _converted(source, asked, str(target), passes)
    _write(Path(target), data)
    report.seconds = time.perf_counter() - start
    return report


def bisect(source: Source, *, passes: Sequence[Pass] = PASSES, **options: Any) -> str | None:
    """The first step after which the model no longer gives the source's answers, or None.

    A step is `read`, a pass by name, `quantize`, or `run` (the file on the lite runtime).
    """
    asked = Options(**options)
    with _one_error(source):
        made = _Conversion(source, asked, Report(name_of(source), "", "", 0), passes)
        found = made.bisect()
        if found is not None and made.finds_int8():  # then `convert` goes on without
            made.leave_out(find_int8)
            found = made.bisect()
        return found


def _converted(
    source: Source, asked: Options, target: str, passes: Sequence[Pass]
) -> tuple[Report, bytes]:
    """With layers of int8 where the source quantizes or, where these do not agree with it, for they
    round some numbers the other way, with its own floats."""
    made = _Conversion(source, asked, Report(name_of(source), target, "", 0), passes)
    try:
        return made.report, made.run()
    except Disagreement as e:
        if not made.finds_int8() or not made.report.int8_nodes:
            raise
        on_int8 = e.found
    made.leave_out(find_int8)
    data = made.run()
    made.report.stays_float = on_int8
    return made.report, data


@contextmanager
def _one_error(source: Source) -> Iterator[None]:
    """Whatever is wrong with the model becomes a ConvertError of one line that names it."""
    import lite_runtime as lite

    try:
        with np.errstate(all="ignore"):  # the weights of a model may overflow or divide by 0
            yield
    except OSError as e:
        raise ConvertError(f"{e.filename or name_of(source)}: {e.strerror}") from e
    except ConvertError as e:
        if isinstance(source, (str, Path)):
            e.args = (_placed(source, str(e)),)
        raise
    except (IrError, lite.LiteError, MemoryError, ValueError) as e:
        text = " ".join(str(e).split()) or type(e).__name__
        raise ConvertError(_placed(source, text)) from e


def _placed(source: Source, text: str) -> str:
    """The text behind the source's name."""
    place = f"{name_of(source)}: "
    return text if text.startswith(place) else place + text


class _Conversion:
    """One model on its way; each step reads what the one before left."""

    def __init__(
        self, source: Source, asked: Options, report: Report, passes: Sequence[Pass]
    ) -> None:
        given = source
        self.program = program_of(source, asked)
        if self.program is not None:
            source = to_onnx(self.program)
        self.source, self.asked, self.report = source, asked, report
        self.model, report.source_kind, report.source_bytes = read(source, asked)
        self.passes: Sequence[Pass] = with_allowed(passes, asked.allow)
        if not asked.quantization:
            self.passes = with_stored(self.passes, self.model.metadata)
        if self.program is not None:
            report.source_kind = "pt2"
        if "infer" not in self.model.entries:
            raise ConvertError(f"{report.source}: no entry infer; has {list(self.model.entries)}")
        self.entry = self.model.entries["infer"]
        report.nodes_read, report.quantize = len(self.entry.nodes), asked.quantize
        self.quantization, self.train = asked.quantization, asked.train
        self.lineage = lineage(given, report.source_kind, bytes_of(given), asked)
        self.known, self.whys = Provenance.of(self.entry), dict[str, str]()
        self.way = 2, check.FREE_SIZES[0]  # random integers' bound and free sizes
        report.tolerance, report.fixed = asked.tolerance, self.model.metadata.get("fixed", "")
        imported = report.source_kind != "tflite" and check.rounds(self.entry)
        report.rounds = imported or DYNAMIC in self.model.metadata
        if asked.tol is None and (report.rounds or WIDE in self.model.metadata):
            least = TOLERANCE["int8"] if report.rounds else WIDE_TOLERANCE
            report.tolerance = max(report.tolerance, least)

    def finds_int8(self) -> bool:
        """Whether layers of int8 stand for quantizers of the source."""
        return self.report.rounds and find_int8 in self.passes

    def leave_out(self, step: Pass) -> None:
        """Go on without a pass, with what was read and the source's answers."""
        self.passes = [p for p in self.passes if p is not step]

    def run(self) -> bytes:
        """The bytes of the file, which agrees with the source."""
        shared = len(self.model.entries) > 1 and not self.train
        self.fit_memory()
        tried = self.check_old_head() if self.train and self.train.head is not None else None
        done = self.polished() if shared else self.optimised()
        if self.asked.explain:
            self.report.explain = rows(
                done.entries["infer"], self.source_nodes(), self.known, self.whys
            )
        self.report.nodes = count_nodes(done.entries["infer"])
        self.report.int8_nodes = count_int8(done.entries["infer"])
        self.report.entries = list(done.entries)
        if any(g.updates for g in done.entries.values()):
            self.report.trainable = [w.name or "" for w in done.weights if w.trainable]
        if self.train:
            self.report.memory = promises(model_file.write(done))
            done.metadata.update(self.report.memory)
        data = model_file.write(done, sign_with=self.asked.sign)
        self.report.target_bytes = len(data)
        if tried is None:
            self.check(data)
        else:
            self.check_new_head(data, tried)
        return data

    def source_nodes(self) -> list[tuple[str, str]]:
        """Names and operators of an ONNX model's nodes; of our own models all are in the graph."""
        if self.report.source_kind not in ("onnx", "pt2"):
            return []
        nodes = enumerate(parse(self.source).graph.node)
        return [(n.name or f"node {i} {n.op_type} ''", n.op_type) for i, n in nodes]

    def fit_memory(self) -> None:
        """Narrow what trains to the memory that it may take."""
        if self.train is not None and self.train.memory is not None:
            plan = within_memory(self.entry, self.train, self.trained)
            self.train, self.report.train_memory = plan.spec, plan.text

    def trained(self, spec: TrainSpec) -> Model:
        """The model that trains as `spec` says, in float32."""
        graph = applied(self.passes, choose_weights(self.entry, spec))
        return Model({name: _polished(g) for name, g in add_training(graph, spec).items()})

    def check_old_head(self) -> list[dict[str, Array]]:
        """A new head has no answers to compare with: those of the old one are, on the same way.
        Done first, for what is reported is the model with the new one. The inputs."""
        train, self.train = self.train, None
        inputs = self.check(model_file.write(self.optimised()))
        self.train = train
        return inputs

    def check_new_head(self, data: bytes, inputs: Sequence[Arrays]) -> None:
        """The new head has to give numbers."""
        found = check.run_file(data, self.entry, inputs)
        if not all(np.isfinite(a).all() for row in found for a in row):
            raise ConvertError(f"{self.report.source}: the model with a new head gives no numbers")

    def polished(self) -> Model:
        """A model whose entries share weights: nothing that would make new ones is done."""
        if self.quantization:
            raise ConvertError(
                f"{self.report.source}: has entries {', '.join(self.model.entries)}, which share "
                "float32 weights; quantize with --train to make new ones"
            )
        if self.report.source_kind in ("ms", "model"):
            self.lineage = {}  # nothing is made anew: what the file says of itself stays true
        entries = dict(self.model.entries)
        return self.with_entries(
            keep_all_stored(entries) if SMALL in self.model.metadata else entries
        )

    def optimised(self) -> Model:
        """A model of its entry `infer` alone, and those that training adds."""
        first = choose_weights(self.entry, self.train)
        known = Provenance.of(first)
        graph, self.report.passes = first, []
        for run in self.passes:
            graph = known.after(run.__name__, run, graph)
            self.report.passes.append({"pass": run.__name__, "nodes": len(graph.nodes)})
        self.known = known
        if self.quantization:
            graph = self.quantized(graph)
        if self.train is None:
            return self.with_entries({"infer": graph})
        return self.with_entries(add_training(graph, self.train))

    def quantized(self, graph: Graph) -> Graph:
        found = self.found(graph)
        if self.train and not found.layers:
            raise ConvertError(
                f"{self.report.source}: nothing can be {self.quantization.kind}, for what trains "
                "stays float32 and "
                f"{', '.join(w.name or '' for w in graph.weights if w.trainable)} train; "
                "name fewer (--trainable)"
            )
        self.report.unchanging = check.unchanging(self.asked.calibration or {}, graph)
        self.report.layers, self.report.score = found.layers, found.score
        self.report.unfit, self.report.measured_on = found.unfit, found.measured_on
        self.report.kept_float, self.whys = found.kept_float, found.whys
        return found.graph

    def found(self, graph: Graph) -> Found:
        given = self.asked.calibration, self.asked.check_data
        return quantized_graph(graph, self.quantization, *given, self.examples)

    def examples(self, count: int) -> list[dict[str, Array]]:
        """Inputs at random that the source runs on, as those that are compared on."""
        _ = self.tried
        return check.sample_inputs(self.entry, count, None, self.model, *self.way)

    def with_entries(self, entries: Mapping[str, Graph]) -> Model:
        told = {"infer": self.known}  # whose nodes a report explains
        last = {name: _polished(graph, told.get(name)) for name, graph in entries.items()}
        known = {n.source for g in walk(self.model.entries.values()) for n in g.nodes}
        for node in (n for g in walk(last.values()) for n in g.nodes if n.source not in known):
            node.source = ""  # a line of the program that converts is nothing to keep in a file
        metadata = {**self.model.metadata, **self.lineage, **(self.asked.metadata or {})}
        if self.train:
            metadata |= self.train.metadata
        return Model(last, metadata, self.model.symbol_ranges)

    def check(self, data: bytes) -> list[dict[str, Array]]:
        """Compare the bytes, loaded by the runtime, with the source's own reference. The inputs."""
        inputs, want = self.tried
        got = check.run_file(data, self.entry, inputs)
        self.report.checked_inputs = len(inputs)
        self.report.checked_on = check.origin(self.asked.calibration, self.asked.check_data)
        self.report.agreement = self.compared(want, got)
        worst = self.report.worst
        if worst is not None and not self.report.agrees:
            kind = "root mean square" if self.report.noisy else "relative"
            raise Disagreement(
                self.report.source,
                f"output {worst.output} differs from the source by "
                f"{self.report.error_of(worst):.3g} ({kind}), tolerance {self.report.tolerance:g}",
            )
        return inputs

    def bisect(self) -> str | None:
        inputs, want = self.tried
        for name, got in self.steps(inputs):
            found = self.compared(want, got)
            if name in ("quantize", "run") or not self.quantization:
                limit, errors = self.report.tolerance, map(self.report.error_of, found)
            else:  # before it is quantized a model is as exact as any float32 one
                limit, errors = TOLERANCE["none"], (a.relative for a in found)
            if not all(e <= limit for e in errors):
                return name
        return None

    def steps(self, inputs: Sequence[Arrays]) -> Iterator[tuple[str, list[list[Array]]]]:
        """Each step's name and answers."""
        train = self.train if self.train is None or self.train.head is None else None
        graph = first = choose_weights(self.entry, train)  # a new head has nothing to agree with
        yield "read", check.run_stream(first, inputs)
        for name, graph in optimise(first, self.passes):
            yield name, check.run_stream(graph, inputs)
        if self.quantization:
            graph = self.quantized(graph)
            yield "quantize", check.run_stream(graph, inputs)
        data = model_file.write(self.with_entries({"infer": graph}))
        yield "run", check.run_file(data, self.entry, inputs)

    @cached_property
    def tried(self) -> tuple[list[dict[str, Array]], list[list[Array]]]:
        """Inputs, and the source's own answers. Random integers are below 100 or, where the source
        does not run on such ones, for they choose among fewer, 0 and 1; free sizes are larger where
        it does not run on short inputs."""
        data = self.asked.check_data or self.asked.calibration
        ways = [(b, n) for n in check.FREE_SIZES[:2] for b in (100, 2)]
        first: Exception | None = None
        for below, free in ways[:1] if data else ways:
            try:
                inputs = check.sample_inputs(
                    self.entry, self.asked.check, data, self.model, below, free
                )
                self.way = below, free
                return inputs, self.wanted(inputs)
            except SourceTimeout:
                raise
            except (ConvertError, IndexError) as e:
                first = first or e
        assert first is not None
        raise first

    def wanted(self, inputs: Sequence[Arrays]) -> list[list[Array]]:
        """The source's own answers."""
        if self.program is not None and not self.asked.outputs:
            self.report.reference = "PyTorch"
            run = answers(self.program, [v.name or "" for v in self.entry.inputs])
            return [run(x) for x in inputs]
        if self.report.source_kind in ("onnx", "pt2"):
            ends, limit = (self.asked.shapes or {}, self.asked.outputs), self.asked.check_seconds
            found = check.onnx_answers(self.source, self.entry, *ends, inputs, limit)
            self.report.reference, theirs = found
            return theirs
        if self.report.source_kind == "tflite":
            data, limit = bytes_of(self.source) or b"", self.asked.check_seconds
            litert = litert_answers(data, self.asked.outputs, inputs, limit)
            if litert is not None:
                self.report.reference, theirs = litert
                if self.report.reference == OPTIMISED and count_int8(self.entry):
                    self.report.rounds = True  # these round as they like
                    if self.asked.tol is None:
                        self.report.tolerance = max(self.report.tolerance, TOLERANCE["int8"])
                return theirs
        self.report.reference = OWN
        return check.run_stream(self.entry, inputs)

    def compared(
        self, want: Sequence[Sequence[Array]], got: Sequence[Sequence[Array]]
    ) -> list[Agreement]:
        steps, reach = check.steps_of(self.entry), [*map(check.reach_of, self.entry.outputs)]
        return check.compare(self.entry.output_names, want, got, steps, reach)


def _polished(graph: Graph, known: Provenance | None = None) -> Graph:
    """The graph after the last passes; `known` follows its nodes."""
    for run in LAST_PASSES:
        graph = run(graph) if known is None else known.after(run.__name__, run, graph)
    return graph


def optimise(graph: Graph, passes: Sequence[Pass] = PASSES) -> Iterator[tuple[str, Graph]]:
    """Every pass in turn: its name and what it left."""
    for run in passes:
        graph = run(graph)
        yield run.__name__, graph


def _check_target(source: Source, target: Path) -> None:
    """The source is never overwritten, by whatever name it is called."""
    try:
        same = isinstance(source, (str, Path)) and target.exists() and target.samefile(source)
    except OSError as e:
        raise ConvertError(f"{e.filename or target}: {e.strerror}") from None
    if same:
        raise ConvertError(f"{target}: is the source itself, want another file to write")


def _write(target: Path, data: bytes) -> None:
    try:
        write_whole(target, data)
    except OSError as e:
        raise ConvertError(f"{target}: {e.strerror}; nothing was written") from None
