"""Pictures of graphs: no edge runs behind a box, no box stands on another."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from lite_runtime.graph_layout import BOX_HEIGHT, BOX_WIDTH, Edge, Layout, layout
from lite_runtime.svg import draw
from tests.lite_runtime.models import open_model, small_cnn

SKIP: list[Edge] = [(0, 1), (1, 2), (0, 3), (2, 3)]  # box 3 adds what box 0 gave


def random_edges(count: int, seed: int) -> list[Edge]:
    """Each box reads up to three of those before it, more often near ones."""
    rng = np.random.default_rng(seed)
    return [
        (int(a), b)
        for b in range(count)
        for a in np.unique(b - 1 - rng.geometric(0.3, rng.integers(0, 4)))
        if a >= 0
    ]


def crossed(found: Layout, edge: Edge) -> list[int]:
    """The boxes, other than its ends, whose rows an edge crosses within their width."""
    way = found.ways[edge]
    hit = []
    for box, (x, y) in enumerate(found.corners):
        inside = [px for px, py in way if y <= py <= y + BOX_HEIGHT and x <= px <= x + BOX_WIDTH]
        hit += [box] * (bool(inside) and box not in edge)
    return hit


def test_what_skips_a_box_runs_beside_it() -> None:
    found = layout(4, SKIP)
    way = found.ways[0, 3]
    beside = [x for x, y in way if found.corners[1][1] <= y <= found.corners[2][1] + BOX_HEIGHT]
    assert len(beside) == 4  # into and out of the rows of boxes 1 and 2
    assert all(not x1 <= x <= x1 + BOX_WIDTH for x in beside for x1, _ in found.corners[1:3])


@pytest.mark.parametrize("seed", range(20))
def test_no_edge_runs_behind_a_box_and_none_stands_on_another(seed: int) -> None:
    edges = random_edges(30, seed)
    found = layout(30, edges)
    assert set(found.ways) == set(edges)
    assert not [edge for edge in edges if crossed(found, edge)]
    for a, (x1, y1) in enumerate(found.corners):
        assert 0 <= x1 <= found.width - BOX_WIDTH + 1e-6
        assert 0 <= y1 <= found.height - BOX_HEIGHT
        for x2, y2 in found.corners[:a]:
            assert y1 != y2 or abs(x1 - x2) > BOX_WIDTH
    for (a, b), way in found.ways.items():
        assert way[0][1] == found.corners[a][1] + BOX_HEIGHT
        assert way[-1][1] == found.corners[b][1] > way[0][1]


def test_an_input_stands_right_above_its_first_reader() -> None:
    found = layout(5, [(0, 2), (2, 3), (3, 4), (1, 4)])
    assert found.corners[1][1] == found.corners[3][1]


def test_an_empty_graph_has_no_size() -> None:
    assert layout(0, []) == Layout([], {}, 0, 0)


def test_a_picture_has_an_arrow_for_each_edge_and_tells_the_sizes_that_it_shows() -> None:
    session = open_model(small_cnn())
    session.resize({"batch": 7})
    root = ET.fromstring(draw(session, "infer"))
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"float32[7,8,8,3]", "float32[7,5]", "batch = 7"} <= set(texts)
    assert not [t for t in texts if t and "[batch" in t]
    arrows = [p for p in root.iter("{http://www.w3.org/2000/svg}path") if p.get("marker-end")]
    assert len(arrows) == len(session.nodes("infer")) + 1  # a chain, from the input to the output
