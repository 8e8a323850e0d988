"""Random formulas with affine indices, and what they mean: loops in Python, point by point."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ir.graph import Array

Form = tuple[int, dict[str, int]]  # a constant, and a factor for each index


@dataclass(frozen=True)
class Read:
    tensor: int
    forms: tuple[Form, ...]
    fill: float


@dataclass(frozen=True)
class Sample:
    """y[place] gathers, or takes as `+=`, what `reads` and `kind` make at every index."""

    shapes: tuple[tuple[int, ...], ...]
    ranges: dict[str, int]
    place: tuple[Form, ...]
    shape: tuple[int, ...]
    reads: tuple[Read, ...]
    kind: str  # sum, max, min
    body: str  # product, exp, where
    is_scatter: bool
    condition: Form | None

    @property
    def text(self) -> str:
        lines = [f"{k} = range({n})" for k, n in self.ranges.items()]
        values = [f"padded(x{r.tensor}[{_forms(r.forms)}], {r.fill})" for r in self.reads]
        body = {
            "product": " * ".join(values),
            "exp": f"exp(0.3 * {values[0]}) * " + " * ".join(["1", *values[1:]]),
            "where": f"where({values[0]} > 0.1, " + " * ".join(values) + f", {values[-1]})",
        }[self.body]
        if self.condition is not None:
            nothing = {"sum": "0", "max": "-50", "min": "50"}[self.kind]
            body = f"where({_form(self.condition)} >= 0, {body}, {nothing})"
        if self.is_scatter:
            inside = " and ".join(
                f"0 <= {_form(f)} < {n}" for f, n in zip(self.place, self.shape, strict=True)
            )
            lines.append(f"y = zeros({', '.join(map(str, self.shape))})")
            lines.append(f"y[{_forms(self.place)}] += where({inside}, {body}, 0)")
        else:
            summed = [k for k in self.ranges if not any(k in f for _, f in self.place)]
            if summed:
                body = f"reduce_{self.kind}(({', '.join(summed)},), {body})"
            lines.append(f"y[{_forms(self.place)}] = {body}")
        return "\n".join(lines)

    def brute(self, xs: Sequence[Array]) -> Array:
        """The formula's value by plain loops."""
        nothing = {"sum": 0.0, "max": -np.inf, "min": np.inf}[self.kind]
        y = np.full(self.shape, nothing)
        for numbers in itertools.product(*(range(n) for n in self.ranges.values())):
            at = dict(zip(self.ranges, numbers, strict=True))
            place = tuple(_at(f, at) for f in self.place)
            if not _inside(place, self.shape):
                continue
            value = self.value(xs, at)
            y[place] = {"sum": np.add, "max": np.maximum, "min": np.minimum}[self.kind](
                y[place], value
            )
        return y

    def value(self, xs: Sequence[Array], at: dict[str, int]) -> float:
        if self.condition is not None and _at(self.condition, at) < 0:
            return {"sum": 0.0, "max": -50.0, "min": 50.0}[self.kind]
        values = []
        for r in self.reads:
            index = tuple(_at(f, at) for f in r.forms)
            x = xs[r.tensor]
            values.append(float(x[index]) if _inside(index, x.shape) else r.fill)
        product = float(np.prod(values))
        if self.body == "exp":
            return float(np.exp(0.3 * values[0]) * np.prod(values[1:]))
        if self.body == "where" and values[0] <= 0.1:
            return values[-1]
        return product


def random_formula(seed: int) -> Sample:
    rng = np.random.default_rng(seed)
    names = ["i", "j", "k", "l"][: rng.integers(1, 5)]
    ranges = {n: int(rng.integers(1, 6)) for n in names}
    shapes = tuple(
        tuple(int(n) for n in rng.integers(1, 7, rng.integers(1, 3)))
        for _ in range(rng.integers(1, 3))
    )
    reads = tuple(
        Read(t, tuple(_random_form(rng, names) for _ in shapes[t]), _number(rng, (0, 0, 0.5)))
        for t in rng.permutation(len(shapes)).tolist()
    )
    is_scatter = bool(rng.random() < 0.4)
    if is_scatter:
        shape = tuple(int(n) for n in rng.integers(1, 9, rng.integers(1, 3)))
        place = tuple(_random_form(rng, names) for _ in shape)
    else:
        order = rng.permutation(names).tolist()[: rng.integers(1, len(names) + 1)]
        place = tuple((0, {n: 1}) for n in order)
        shape = tuple(ranges[n] for n in order)
    gathers_max = not is_scatter and len(place) < len(names) and rng.random() < 0.4
    kind = str(rng.choice(["max", "min"])) if gathers_max else "sum"
    condition = _random_form(rng, names) if rng.random() < 0.4 else None
    body = str(rng.choice(["product", "exp", "where"]))
    forms = [f for r in reads for f in r.forms] + list(place) + ([condition] if condition else [])
    if is_scatter:  # whose indices are those that it names
        ranges = {n: size for n, size in ranges.items() if any(n in f for _, f in forms)}
    return Sample(shapes, ranges, place, shape, reads, kind, body, is_scatter, condition)


def _number(rng: np.random.Generator, choices: Sequence[float]) -> float:
    return float(rng.choice(choices))


def _random_form(rng: np.random.Generator, names: Sequence[str]) -> Form:
    chosen = rng.permutation(names).tolist()[: rng.integers(0, 3)]
    return int(rng.integers(-2, 4)), {n: int(rng.choice([1, 1, -1, 2, 3, -2])) for n in chosen}


def _form(form: Form) -> str:
    return " + ".join([str(form[0]), *(f"{c} * {n}" for n, c in form[1].items())])


def _forms(forms: Sequence[Form]) -> str:
    if all(base == 0 and list(f.values()) == [1] for base, f in forms):
        return ", ".join(n for _, f in forms for n in f)
    return ", ".join(map(_form, forms))


def _at(form: Form, at: dict[str, int]) -> int:
    return form[0] + sum(c * at[n] for n, c in form[1].items())


def _inside(index: Sequence[int], shape: Sequence[int]) -> bool:
    return all(0 <= i < n for i, n in zip(index, shape, strict=True))
