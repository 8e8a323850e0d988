"""Draw an entry's graph as an SVG picture: a box for each node, in layers from top to bottom."""

from __future__ import annotations

from html import escape

from lite_runtime.session import Session

BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y, MARGIN = 168, 40, 24, 40, 20
COLOURS = {"input": "#d9ead3", "output": "#fce5cd", "node": "#dbe7f6"}
Box = tuple[str, str, str]  # kind, first line, second line


def draw(session: Session, entry: str | None = None) -> str:
    """The picture of an entry: inputs, nodes with the shape of their result, outputs."""
    boxes, edges = _graph(session, entry)
    places = _layout(len(boxes), edges)
    width = max((x for x, _ in places), default=0) + BOX_WIDTH + MARGIN
    height = max((y for _, y in places), default=0) + BOX_HEIGHT + MARGIN
    lines = [_edge(places[a], places[b]) for a, b in edges]
    drawn = [_box(box, place) for box, place in zip(boxes, places, strict=True)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
            '<rect width="100%" height="100%" fill="white"/>',
            *lines,
            *drawn,
            "</svg>\n",
        ]
    )


def _graph(session: Session, entry: str | None) -> tuple[list[Box], list[tuple[int, int]]]:
    """Boxes in an order in which each stands behind those that it reads, and edges between them."""
    takes, gives, nodes = session.inputs(entry), session.outputs(entry), session.nodes(entry)
    first = len(session.weight_infos)
    boxes: list[Box] = [("input", i.name, f"{i.dtype.name}{_shape(i.shape)}") for i in takes]
    maker = {
        first + i: i for i in range(len(takes))
    }  # id of a tensor -> the box that it comes from
    edges: list[tuple[int, int]] = []
    for node in nodes:
        box = len(boxes)
        boxes.append(
            (
                "node",
                node.op,
                _shape(node.shape) if min(node.shape, default=0) >= 0 else node.source,
            )
        )
        edges += [(maker[i], box) for i in dict.fromkeys(node.inputs) if i in maker]
        maker |= dict.fromkeys(node.outputs, box)
    for info, made in zip(gives, session.output_ids(entry), strict=True):
        edges += [(maker[made], len(boxes))] if made in maker else []
        boxes.append(("output", info.name, f"{info.dtype.name}{_shape(info.shape)}"))
    return boxes, edges


def _layout(count: int, edges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The upper left corner of each box: its layer is the longest way to it."""
    layer = [0] * count
    for a, b in edges:  # sorted by b: a's layer is final
        layer[b] = max(layer[b], layer[a] + 1)
    filled: dict[int, int] = {}
    places = []
    for row in layer:
        column = filled.get(row, 0)
        filled[row] = column + 1
        places.append((MARGIN + column * (BOX_WIDTH + GAP_X), MARGIN + row * (BOX_HEIGHT + GAP_Y)))
    return places


def _box(box: Box, place: tuple[int, int]) -> str:
    kind, first, second = box
    x, y = place
    at = f'x="{x + BOX_WIDTH // 2}" text-anchor="middle"'
    return (
        f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5" '
        f'fill="{COLOURS[kind]}" stroke="#555"/>'
        f'<text {at} y="{y + 16}">{escape(_cut(first))}</text>'
        f'<text {at} y="{y + 32}" fill="#555">{escape(_cut(second))}</text>'
    )


def _edge(a: tuple[int, int], b: tuple[int, int]) -> str:
    x1, y1, x2, y2 = a[0] + BOX_WIDTH // 2, a[1] + BOX_HEIGHT, b[0] + BOX_WIDTH // 2, b[1]
    bend = (y1 + y2) // 2
    return f'<path d="M{x1},{y1} C{x1},{bend} {x2},{bend} {x2},{y2}" fill="none" stroke="#999"/>'


def _cut(text: str, most: int = 26) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _shape(shape: tuple[object, ...]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"
