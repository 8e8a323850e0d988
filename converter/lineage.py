"""Where a file comes from, as its metadata say it: the source's hash, the flags, the versions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from converter.onnx.functions import all_nodes, graphs_of
from ir.version import version
from lite_runtime.files import read_file

# Options that change nothing that is written, or that are told by themselves.
NOT_FLAGS = ("check", "check_data", "tol", "sign", "metadata", "explain")


def lineage(source: Any, kind: str, data: bytes | None, options: Any) -> dict[str, str]:
    """`source.sha256`, of the source's bytes with its external ones (none for a model in memory);
    `converter.flags`, JSON of the options that are not as by default, arrays as hashes; and
    `converter.version`. The same source and flags give the same text."""
    found = {"converter.version": version(), "converter.flags": _flags(options)}
    if data is not None:
        found["source.sha256"] = _hash(source, kind, data)
    return found


def _hash(source: Any, kind: str, data: bytes) -> str:
    digest = hashlib.sha256(data)
    if kind == "onnx" and isinstance(source, (str, Path)) and b"location" in data:
        for name in _external(Path(source)):
            digest.update(read_file(Path(source).parent / name))
    return digest.hexdigest()


def _external(path: Path) -> list[str]:
    """The files beside an ONNX model that hold its weights, sorted."""
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    nodes = list(all_nodes(graph.node))
    held = [t for g in (graph, *chain(*map(graphs_of, nodes))) for t in g.initializer]
    held += [a.t for n in nodes for a in n.attribute if a.HasField("t")]
    tensors = [t for t in held if t.HasField("data_location")]
    return sorted({e.value for t in tensors for e in t.external_data if e.key == "location"})


def _flags(options: Any) -> str:
    default = type(options)()
    given = {
        f.name: _plain(value)
        for f in fields(options)
        if f.name not in NOT_FLAGS and (value := getattr(options, f.name)) is not None
        if value is not getattr(default, f.name) and value != getattr(default, f.name)
    }
    if options.max_drop is not None and options.check_data:
        given["check_data"] = _plain(options.check_data)
    return json.dumps(given, sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value
