"""Single operators beside PyTorch: shapes that training meets and that are easily slow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

import lite_runtime as lite
from bench.timing import Contender, Row, Turns, rows, take_turns, timed
from cloud import ops
from ir.dtype import DType
from ir.graph import Array, Graph, Model, Value
from ir.model_file import write


@dataclass(frozen=True)
class Case:
    """One operator; inputs that are `bools` are truth values, the others float32."""

    ours: Callable[..., Value]
    theirs: Callable[..., torch.Tensor]
    shapes: tuple[tuple[int, ...], ...]
    bools: tuple[int, ...] = ()


def mean_of(axes: tuple[int, ...], *shape: int) -> Case:
    return Case(partial(ops.reduce_mean, axes=axes), lambda x: x.mean(axes), (shape,))


def permuted(perm: tuple[int, ...], *shape: int) -> Case:
    return Case(partial(ops.transpose, perm=perm), lambda x: x.permute(perm).contiguous(), (shape,))


IMAGES = (8, 32, 32, 16)
CASES = {
    "add": Case(ops.add, torch.add, (IMAGES, IMAGES)),
    "mul by channel": Case(ops.mul, torch.mul, (IMAGES, (16,))),
    "mul by image and channel": Case(ops.mul, torch.mul, (IMAGES, (8, 1, 1, 16))),
    "sub by row": Case(ops.sub, torch.sub, ((2048, 32), (2048, 1))),
    "pow": Case(ops.pow, torch.pow, (IMAGES, ())),
    "where": Case(ops.where, torch.where, (IMAGES, IMAGES, IMAGES), (0,)),
    "where by pixel": Case(ops.where, torch.where, ((8, 32, 32, 1), IMAGES, ()), (0,)),
    "mean of channels": mean_of((0, 1, 2), *IMAGES),
    "mean of images": mean_of((1, 2), *IMAGES),
    "mean of rows": mean_of((1,), 2048, 32),
    "mean over axes 0, 3": mean_of((0, 3), *IMAGES),
    "transpose 2-d": permuted((1, 0), 512, 256),
    "transpose to channels last": permuted((0, 2, 3, 1), 1, 3, 224, 224),
    "concat channels": Case(
        partial(ops.concat, axis=3), lambda a, b: torch.cat((a, b), 3), (IMAGES, IMAGES)
    ),
    "cast bool": Case(partial(ops.cast, to="f32"), lambda x: x.float(), (IMAGES,), (0,)),
    "exp": Case(ops.exp, torch.exp, (IMAGES,)),
    "gelu": Case(ops.gelu, torch.nn.functional.gelu, (IMAGES,)),
    "softmax": Case(partial(ops.softmax, axis=1), partial(torch.softmax, dim=1), ((2048, 100),)),
}
QUICK_CASES = ("mul by channel", "where by pixel", "mean of channels", "transpose 2-d")


def measure(
    turns: Turns, threads: Sequence[int], cases: Sequence[str] = tuple(CASES)
) -> Iterator[Row]:
    """Rows of every case by number of threads; inputs of PyTorch's are tensors already."""
    for name in cases:
        case = CASES[name]
        arrays = _inputs(case)
        feed = {f"x{i}": a for i, a in enumerate(arrays)}
        data = model(case)
        for n in threads:
            torch.set_num_threads(n)
            session = lite.load(data, threads=n)
            theirs = partial(case.theirs, *(torch.tensor(a) for a in arrays))
            exact = theirs().numpy()
            off = np.abs(session.run(feed)["y"] - exact).max() / np.abs(exact).max()
            found = take_turns({"ours": kernel(session, feed), "torch": timed(theirs)}, turns)
            yield from rows("operators", name, n, found, f"ours off by {off:.0e}")


def kernel(session: lite.Session, feed: dict[str, Array]) -> Contender:
    """The nodes' own time: PyTorch's results stay where they are too, ours go out as arrays."""
    return lambda calls: 1e-6 * calls * session.profile(feed, runs=calls).time_us


def model(case: Case) -> bytes:
    """A model file of the operator alone."""
    values = tuple(
        Value(shape, DType.bool if i in case.bools else DType.f32, name=f"x{i}")
        for i, shape in enumerate(case.shapes)
    )
    return write(Model({"infer": Graph(values, (case.ours(*values),), ("y",))}))


def _inputs(case: Case) -> list[Array]:
    rng = np.random.default_rng(0)
    arrays: list[Any] = [rng.random(shape, np.float32) for shape in case.shapes]
    return [a > 0.5 if i in case.bools else a for i, a in enumerate(arrays)]
