"""The driver of the inference harness: its tables, and the adapter in a copy of a harness."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from bench.peers import infer
from ir import model_file
from tests.lite_runtime.models import linear_model

HARNESS = """
class Adapter(object):
    pass
ADAPTERS = []
BY_NAME = {}
"""


def results(best_ms: dict[str, float]) -> dict[str, object]:
    return {"peers": {name: {"best_ms": ms} for name, ms in best_ms.items()}}


def test_a_row_has_the_fastest_form_of_each_peer_and_our_share_of_the_peak(tmp_path: Path) -> None:
    found = {
        "latency": {
            "mnv2_fp32/1": results(
                {"mindspan": 2.0, "litert": 3.0, "litert-compiled": 2.5, "ncnn": 4.0}
            ),
            "mnv2_fp32/2": results({"litert": 1.0}),
        },
        "roofline": {"1": {"fp32_gflops": 100.0, "int8_exact_gops": 200.0}},
    }
    (tmp_path / "results.json").write_text(json.dumps(found))
    (tmp_path / "models").mkdir()
    (tmp_path / "models/models.json").write_text(json.dumps({"mnv2": {"macs": 50_000_000}}))
    lines = infer.tables(tmp_path, infer.TASKS).splitlines()
    assert lines[0] == "|  | threads | ours | LiteRT | ncnn | fastest peer / ours | share of peak |"
    assert lines[2:] == ["| mnv2_fp32 | 1 | 2 | 2.5 | 4 | 1.25 | 50 % |"]


def test_a_copy_of_the_harness_knows_of_us_and_the_harness_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = tmp_path / "harness"
    harness.mkdir()
    (harness / "adapters.py").write_text(HARNESS)
    for _ in range(2):  # a second copy knows of us once
        copy = infer.joined(harness, tmp_path / "copy")
    assert (harness / "adapters.py").read_text() == HARNESS
    monkeypatch.syspath_prepend(str(copy))
    import adapters

    assert [a.name for a in adapters.ADAPTERS] == ["mindspan"]
    path, x = tmp_path / "mindspan_fp32.ms", np.ones((1, 2), np.float32)
    model_file.save(linear_model(), path)
    ours = adapters.BY_NAME["mindspan"]()
    ours.imports()
    ours.load(str(path), x, 1)
    ours.session.set_weights({"w": np.array([[2], [3]], np.float32)})
    ours.run()
    assert ours.output().tolist() == [5.0]
    for name in ("adapters", "mindspan_infer_ad"):
        sys.modules.pop(name)
