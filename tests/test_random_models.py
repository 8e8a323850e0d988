"""Random models as files: the runtime computes what the interpreter computes."""

from __future__ import annotations

import numpy as np
import pytest

import lite_runtime as lite
from cloud.interpreter import step
from ir import model_file
from ir.graph import Array, Model
from tests.helpers import GRAPH_TOLERANCE
from tests.random_graphs import random_arrays, random_model, random_symbolic_graph


def assert_close(a: Array, b: Array) -> None:
    """Equal types, shapes, infinities and NaN; floats within the tolerance of the largest one."""
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    largest = np.abs(b[np.isfinite(b)], dtype=np.float64).max(initial=1)
    atol = GRAPH_TOLERANCE * largest if a.dtype.kind == "f" else 0
    np.testing.assert_allclose(a, b, rtol=0, atol=atol)


@pytest.mark.parametrize("seed", range(60))
def test_a_file_trains_on_the_runtime_as_the_graph_does_in_numpy(seed: int) -> None:
    symbolic = Model({"train": random_symbolic_graph(seed)})
    for model in (random_model(seed), symbolic):
        graph = model.entries["train"]
        arrays = random_arrays(graph, seed, batch=2, seq=3)
        session = lite.load(model_file.write(model), threads=1)
        got = session.run(
            {str(v.name): a for v, a in zip(graph.inputs, arrays, strict=True)}, entry="train"
        )
        with np.errstate(all="ignore"):
            outputs, updates = step(graph, *arrays)
        for name, want in zip(graph.output_names, outputs, strict=True):
            assert_close(np.asarray(got[name]), np.asarray(want))
        weights = session.weights()
        for w, new in updates.items():
            assert_close(weights[str(w.name)], np.asarray(new))
