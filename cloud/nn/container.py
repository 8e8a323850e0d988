"""Modules made of modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cloud.nn.module import Module
from ir.errors import ShapeError
from ir.graph import Value, shape_text

Layer = Module | Callable[[Any], Any]  # a plain function of values is a layer without weights


class Sequential(Module):
    """y = the last layer of … of the first layer of x

    Layers are named "0", "1", … or, given as keywords, by their keyword.
    """

    def __init__(self, *layers: Layer, **named: Layer) -> None:
        self.layers = {**{str(i): layer for i, layer in enumerate(layers)}, **named}

    def children(self) -> Iterator[tuple[str, Module]]:
        return ((name, m) for name, m in self.layers.items() if isinstance(m, Module))

    def __getitem__(self, name: int | str) -> Layer:
        return self.layers[str(name)]

    def __len__(self) -> int:
        return len(self.layers)

    def forward(self, x: Any) -> Any:
        for layer in self.layers.values():
            x = layer(x)
        return x


class Residual(Module):
    """y = body(x) + shortcut(x), the shortcut being x itself by default (He et al. 2016)"""

    def __init__(self, *body: Layer, shortcut: Layer | None = None) -> None:
        self.body = body[0] if len(body) == 1 else Sequential(*body)
        self.shortcut = shortcut

    def forward(self, x: Value) -> Value:
        y, base = self.body(x), x if self.shortcut is None else self.shortcut(x)
        if y.shape != base.shape:
            raise ShapeError(
                f"Residual: the body gives {shape_text(y.shape)}, the shortcut "
                f"{shape_text(base.shape)}; want the same, or a shortcut that projects"
            )
        return y + base
