"""The five tasks: what each is given, in numpy arrays and in tensors, and both of its forms."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.lines.data import Split, digits, sequences
from cloud import nn, train

FOLDER = Path(__file__).parent
SIDES = ("ours", "pytorch")


@dataclass(frozen=True)
class Task:
    """`name`.py in both folders; what `train` there gives is an accuracy or a loss."""

    name: str
    data: Callable[[], Split]
    measure: str
    on_a_base: bool = False

    def run(self, side: str) -> float:
        """The measure of validation, after one of the programs has trained its net."""
        torch.set_num_threads(1)  # for nets this small more are slower
        x, y, x_val, y_val = self.data()
        given: list[Any] = [x, y, x_val, y_val]
        if side == "pytorch":
            given = [torch.from_numpy(a) for a in given]
        if self.on_a_base:
            given.insert(0, pretrained() if side == "ours" else as_torch(pretrained()))
        program = import_module(f"bench.lines.{side}.{self.name}")
        found: float = program.train(*given)
        return found

    def statements(self, side: str) -> int:
        """How many statements the program has, headers of blocks and imports among them."""
        return statements((FOLDER / side / f"{self.name}.py").read_text())


TASKS = (
    Task("mlp", digits, "accuracy"),
    Task("cnn", lambda: digits(size=12), "accuracy"),
    Task("transfer", lambda: digits(size=12, kinds=range(7, 10)), "accuracy", on_a_base=True),
    Task("transformer", sequences, "loss"),
    Task("autoencoder", digits, "loss"),
)


def statements(source: str) -> int:
    """Logical lines of a program: its statements, however they are broken, without docstrings."""
    nodes = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.stmt)]
    return sum(not _is_docstring(n) for n in nodes)


def pretrained() -> nn.Module:
    """Convolutions that were trained to tell the digits 0 to 6 apart."""
    rng = np.random.default_rng(1)
    base = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, rng=rng),
        nn.BatchNorm(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1, rng=rng),
        nn.ReLU(),
        nn.GlobalAveragePool(),
    )
    x, y, _, _ = digits(size=12, kinds=range(7), seed=1)
    net = nn.Sequential(base, nn.Linear(16, 7, rng=rng))
    data = train.ArrayDataset(x=x[..., None], label=y)
    train.fit(net, data, optimizer=train.Momentum(0.1), epochs=10, progress=False)
    return base


def as_torch(base: nn.Module) -> torch.nn.Module:
    """The same base in PyTorch, with the same weights and running statistics."""
    twin = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 16, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
    )
    ours = [np.moveaxis(a, -1, 1) if a.ndim == 4 else a for a in base.state_dict().values()]
    theirs = {k: t for k, t in twin.state_dict().items() if "num_batches" not in k}
    for t, a in zip(theirs.values(), ours, strict=True):
        t.copy_(torch.from_numpy(np.ascontiguousarray(a)))
    return twin


def _is_docstring(node: ast.stmt) -> bool:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return False
    return isinstance(node.value.value, str)
