"""Draw an entry's graph as an SVG picture: a box for each node, in rows from top to bottom."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import pairwise

from lite_runtime.graph_layout import BOX_HEIGHT, BOX_WIDTH, Edge, Point, layout
from lite_runtime.session import LiteError, Session

MARGIN = 20
CAPTION_HEIGHT = 20
COLOURS = {"input": "#d9ead3", "output": "#fce5cd", "node": "#dbe7f6"}
ARROW = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
    'markerHeight="8" orient="auto"><path d="M0,0 L8,4 L0,8 Z" fill="#777"/></marker></defs>'
)
Box = tuple[str, str, str]  # kind, first line, second line


def draw(session: Session, entry: str | None = None) -> str:
    """The picture of an entry: inputs, nodes with the shapes of their weight and of their result,
    outputs. Shapes are those at the present sizes of free dimensions, which the last line tells."""
    try:
        session.planned_bytes(entry)
        planned = True
    except LiteError:  # it does not run at the present sizes: their texts have to do
        planned = False
    boxes, edges = _graph(session, entry, planned)
    places = layout(len(boxes), edges)
    caption = _caption(session, entry) if planned else ""
    width = int(max(places.width, 8 * len(caption))) + 2 * MARGIN
    height = int(places.height) + 2 * MARGIN + CAPTION_HEIGHT
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
            ARROW,
            '<rect width="100%" height="100%" fill="white"/>',
            f'<g transform="translate({MARGIN},{MARGIN})">',
            *(_edge(way) for way in places.ways.values()),
            *(_box(box, at) for box, at in zip(boxes, places.corners, strict=True)),
            "</g>",
            f'<text x="{MARGIN}" y="{height - MARGIN // 2}" fill="#555">{escape(caption)}</text>',
            "</svg>\n",
        ]
    )


def _caption(session: Session, entry: str | None) -> str:
    """The free dimensions that the entry's inputs show, with their present sizes."""
    sizes: dict[str, int] = {}
    for info, shape in zip(session.inputs(entry), session.input_shapes(entry), strict=True):
        named = zip(info.shape, shape, strict=True)
        sizes |= {text: size for text, size in named if text in session.symbols}
    return ", ".join(f"{name} = {size}" for name, size in sizes.items())


def _graph(session: Session, entry: str | None, planned: bool) -> tuple[list[Box], list[Edge]]:
    """Boxes in an order in which each stands behind those that it reads, and edges between them."""
    takes, gives, nodes = session.inputs(entry), session.outputs(entry), session.nodes(entry)
    weights = session.weight_infos
    first = len(weights)
    shapes: list[tuple[object, ...]] = [i.shape for i in takes]
    if planned:
        shapes = list(session.input_shapes(entry))
    boxes: list[Box] = [
        ("input", i.name, f"{i.dtype.name}{_shape(shape)}")
        for i, shape in zip(takes, shapes, strict=True)
    ]
    # id of a tensor -> the box that it comes from; id of a tensor -> its shape
    maker = {first + i: i for i in range(len(takes))}
    shape_of = {first + i: shape for i, shape in enumerate(shapes)}
    edges: list[Edge] = []
    for node in nodes:
        edges += [(maker[i], len(boxes)) for i in dict.fromkeys(node.inputs) if i in maker]
        read = [weights[i].shape for i in node.inputs if 0 <= i < first and weights[i].shape]
        first_line = " ".join([node.op, *map(_shape, read[:1])])
        boxes.append(("node", first_line, _shape(node.shape) if planned else node.source))
        maker |= dict.fromkeys(node.outputs, len(boxes) - 1)
        if planned:
            shape_of[node.outputs[0]] = node.shape
    for info, made in zip(gives, session.output_ids(entry), strict=True):
        edges += [(maker[made], len(boxes))] if made in maker else []
        shape = shape_of.get(made, info.shape)
        boxes.append(("output", info.name, f"{info.dtype.name}{_shape(shape)}"))
    return boxes, edges


def _box(box: Box, corner: Point) -> str:
    kind, first, second = box
    x, y = corner
    at = f'x="{x + BOX_WIDTH / 2:.0f}" text-anchor="middle"'
    return (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5" '
        f'fill="{COLOURS[kind]}" stroke="#555"/>'
        f'<text {at} y="{y + 16:.0f}">{escape(_cut(first))}</text>'
        f'<text {at} y="{y + 32:.0f}" fill="#555">{escape(_cut(second))}</text>'
    )


def _edge(way: Iterable[Point]) -> str:
    """A curve in each gap between two rows, a straight line through each row."""
    points = list(way)
    parts = [f"M{points[0][0]:.0f},{points[0][1]:.0f}"]
    for (x1, y1), (x2, y2) in pairwise(points):
        if round(x1) == round(x2):
            parts.append(f"L{x2:.0f},{y2:.0f}")
        else:
            bend = (y1 + y2) / 2
            parts.append(f"C{x1:.0f},{bend:.0f} {x2:.0f},{bend:.0f} {x2:.0f},{y2:.0f}")
    path = " ".join(parts)
    return f'<path d="{path}" fill="none" stroke="#777" marker-end="url(#arrow)"/>'


def _cut(text: str, most: int = 26) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _shape(shape: tuple[object, ...]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"
