"""Random programs of loops, branches, closures and recursion, checked three ways.

`python -m tests.cloud.parse.random_programs --count 1000` checks seeds 0 to 999: value against
Python, gradient against a tape and against finite differences, both in float64. Eager mode must
give the bits of graph mode, in float64 and, on the reference kernels, in float32; there second
derivatives, too.
"""

from __future__ import annotations

import argparse
import linecache
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from cloud import modes
from cloud.differentiate import grad, value_and_grad
from tests.cloud.parse import tape

ARGUMENTS = ("x", "y", "z")
STEPS = (1e-6, 3e-7)  # of central differences; where the two disagree there is a kink


class Writer:
    """Writes one function. Values stay small: every statement ends in a bounded expression.

    `arrays`: no variable is a number of Python's own, which eager mode computes with in double
    precision for as long as it meets no array.
    """

    def __init__(self, seed: int, *, arrays: bool = False) -> None:
        self.rng = random.Random(seed)
        self.arrays = arrays
        self.lines: list[str] = []
        self.names = list(ARGUMENTS)
        self.functions: list[str] = []
        self.fresh = 0

    def text(self) -> str:
        self.lines = [f"def f({', '.join(ARGUMENTS)}):"]
        self.block(1, self.rng.randint(3, 7), loop=False)
        result = " + ".join(f"{n} * {self.rng.uniform(0.2, 1.5):.2f}" for n in self.names)
        self.write(1, f"return {result}")
        return "\n".join(self.lines) + "\n"

    def write(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def name(self, prefix: str) -> str:
        self.fresh += 1
        return f"{prefix}{self.fresh}"

    def block(self, depth: int, count: int, *, loop: bool) -> None:
        """Statements that change variables which exist; new ones are only made at the outside."""
        kinds = [self.assign, self.assign, self.update, self.branch, self.swap, self.chosen]
        if depth <= 2:
            kinds += [self.for_loop, self.while_loop, self.closure, self.recursion, self.list_of]
        if depth == 1:
            kinds += [self.new, self.early_return]
        for _ in range(count):
            self.rng.choice(kinds)(depth)
        if loop and self.rng.random() < 0.5:
            self.write(depth, f"if {self.condition()}:")
            self.write(depth + 1, self.rng.choice(["break", "continue", f"return {self.expr()}"]))
            self.assign(depth)

    def assign(self, depth: int) -> None:
        self.write(depth, f"{self.rng.choice(self.names)} = {self.expr()}")

    def new(self, depth: int) -> None:
        name = self.name("v")
        self.write(depth, f"{name} = {self.expr()}")
        self.names.append(name)

    def update(self, depth: int) -> None:
        op = self.rng.choice(["+=", "-=", "*="])
        self.write(depth, f"{self.rng.choice(self.names)} {op} np.sin({self.expr()})")

    def swap(self, depth: int) -> None:
        a, b = self.rng.sample(self.names, 2)
        self.write(depth, f"{a}, {b} = {self.expr()}, {a}")

    def chosen(self, depth: int) -> None:
        name = self.rng.choice(self.names)
        self.write(depth, f"{name} = {self.expr()} if {self.condition()} else {self.expr()}")

    def branch(self, depth: int) -> None:
        self.write(depth, f"if {self.condition()}:")
        self.small_block(depth + 1)
        if self.rng.random() < 0.4:
            self.write(depth, f"elif {self.condition()}:")
            self.small_block(depth + 1)
        if self.rng.random() < 0.7:
            self.write(depth, "else:")
            self.small_block(depth + 1)

    def small_block(self, depth: int, *, loop: bool = False) -> None:
        if depth > 3:
            self.assign(depth)
        else:
            self.block(depth, self.rng.randint(1, 2), loop=loop)

    def early_return(self, depth: int) -> None:
        self.write(depth, f"if {self.condition()}:")
        self.write(depth + 1, f"return {self.expr()}")

    def for_loop(self, depth: int) -> None:
        i = self.name("i")
        self.write(depth, f"for {i} in range({self.rng.randint(1, 5)}):")
        name = self.rng.choice(self.names)
        self.write(depth + 1, f"{name} = {name} * 0.9 + {i} * {self.number('0.1')}")
        self.small_block(depth + 1, loop=True)

    def while_loop(self, depth: int) -> None:
        n = self.name("n")
        self.write(depth, f"{n} = 0")
        self.write(depth, f"while {n} < {self.rng.randint(1, 5)} and ({self.condition()}):")
        self.write(depth + 1, f"{n} += 1")
        self.small_block(depth + 1, loop=True)

    def closure(self, depth: int) -> None:
        g, name = self.name("g"), self.rng.choice(self.names)
        if self.rng.random() < 0.5:
            self.write(depth, f"{g} = lambda u, w=0.5: np.tanh(u * w + {name})")
        else:
            self.write(depth, f"def {g}(u):")
            self.write(depth + 1, f"if u > {name}:")
            self.write(depth + 2, f"return u * {name}")
            self.write(depth + 1, f"return np.cos(u) + {self.expr()}")
        self.write(depth, f"{name} = np.sin({g}({self.expr()}))")

    def recursion(self, depth: int) -> None:
        r, name = self.name("r"), self.rng.choice(self.names)
        other = self.rng.choice(self.names)
        self.write(depth, f"def {r}(u, d):")
        self.write(depth + 1, f"if d < 1 or u > {self.rng.uniform(1, 3):.2f}:")
        self.write(depth + 2, f"return u * {other}")
        call = f"{r}(np.sin(u + {other}) * 1.5, d - {self.rng.uniform(0.6, 1.2):.2f})"
        if self.rng.random() < 0.3:
            call = f"{call} * {r}(u * 0.5, d - 1.5)"
        self.write(depth + 1, f"return {call} * 0.7 + u")
        start = f"abs({self.expr()}) + {self.rng.uniform(0.5, 2.5):.2f}"
        self.write(depth, f"{name} = np.tanh({r}({self.expr()}, {start}))")

    def list_of(self, depth: int) -> None:
        xs, k = self.name("xs"), self.rng.choice(self.names)
        self.write(depth, f"{xs} = [{self.expr()} * j for j in range(3)]")
        self.write(depth, f"{xs}[1] = {xs}[2] + {k}")
        self.write(depth, f"{k} = sum({xs}) * 0.2")

    def condition(self) -> str:
        one = f"{self.expr()} {self.rng.choice(['<', '>', '<=', '>='])} {self.expr()}"
        match self.rng.randint(0, 5):
            case 0:
                return f"{one} and {self.rng.choice(self.names)} > -0.3"
            case 1:
                return f"{one} or not {self.rng.choice(self.names)} < 0.4"
            case 2:
                return f"-0.9 < {self.rng.choice(self.names)} < {self.expr()} + 1"
        return one

    def expr(self) -> str:
        a, b = self.rng.choice(self.names), self.rng.choice(self.names)
        k = f"{self.rng.uniform(-1.5, 1.5):.2f}"
        return self.rng.choice(
            [
                f"np.sin({a} * {k})",
                f"np.tanh({a} + {b})",
                f"({a} * 0.5 - {b} * {k})",
                f"np.cos({a}) * {b}",
                f"{a} / (1.5 + abs({b}))",
                f"np.exp(-abs({a})) * {k}",
                self.number(k),
            ]
        )

    def number(self, text: str) -> str:
        return f"(0 * {self.rng.choice(self.names)} + {text})" if self.arrays else text


class KnownLoops(Writer):
    """Loops are counted by numbers of Python's, in ways that a graph would not count in."""

    def for_loop(self, depth: int) -> None:
        c, name = self.name("c"), self.rng.choice(self.names)
        numbers = [round(self.rng.uniform(-1, 1), 2) for _ in range(self.rng.randint(2, 9))]
        self.write(depth, f"for {c} in {numbers}:")
        self.write(depth + 1, f"{name} = {name} * {c} + {c} / 3")
        self.small_block(depth + 1)

    def while_loop(self, depth: int) -> None:
        t, name = self.name("t"), self.rng.choice(self.names)
        self.write(depth, f"{t} = 0.1")
        self.write(depth, f"while {t} < {self.rng.randint(1, 9)}:")
        self.write(depth + 1, f"{t} = {t} * {self.rng.uniform(1.3, 2):.2f} + 0.1")
        self.small_block(depth + 1)
        if self.rng.random() < 0.3:
            self.write(depth + 1, f"if {t} > {self.rng.randint(1, 9)}:")
            self.write(depth + 2, self.rng.choice(["break", "continue", f"return {self.expr()}"]))
        self.write(depth + 1, f"{name} = np.sin({name} + {t} * 0.1)")


def program(
    seed: int, *, arrays: bool = False, writer: type[Writer] = Writer
) -> tuple[Callable[..., Any], str]:
    """The function of this seed, and its text, which Python's `linecache` knows."""
    text = writer(seed, arrays=arrays).text()
    filename = f"<random program {seed}{' of arrays' * arrays} {writer.__name__}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {"np": np}
    exec(compile(text, filename, "exec"), scope)
    return scope["f"], text


def check(seed: int) -> bool:
    """Assert that the program's value and gradient are right; whether differences were usable."""
    f, text = program(seed)
    args = [float(a) for a in np.random.default_rng(seed).uniform(-1.5, 1.5, len(ARGUMENTS))]
    y, g = same_bits_in_both_modes(f, args, text)
    want, slopes = tape.gradient(f, *args)
    np.testing.assert_allclose(y, want, rtol=1e-9, atol=1e-12, err_msg=text)
    np.testing.assert_allclose(g, slopes, rtol=1e-7, atol=1e-9, err_msg=text)
    usable = True
    for i in range(len(args)):
        coarse, fine = (_slope(f, args, i, h) for h in STEPS)
        scale = 1 + max(map(abs, slopes))
        if abs(coarse - fine) > 1e-6 * scale:
            usable = False
        else:
            np.testing.assert_allclose(g[i], fine, rtol=0, atol=3e-6 * scale, err_msg=text)
    return usable


def check_reference_kernels(seed: int) -> None:
    """Assert that both modes give the same bits in float32 on the reference kernels."""
    f, text = program(seed, arrays=True)
    args = np.random.default_rng(seed).uniform(-1.5, 1.5, len(ARGUMENTS)).astype(np.float32)
    same_bits_in_both_modes(f, list(args), text)


def check_second_derivatives(seed: int) -> None:
    """The same of a sum of the program's slopes and of its gradient, the second derivatives."""
    f, text = program(seed, arrays=True)

    def slopes(*args: Any) -> Any:
        gx, gy, gz = grad(f, (0, 1, 2))(*args)
        return gx * np.float32(0.7) + gy * np.float32(1.3) - gz * np.float32(0.4)

    args = np.random.default_rng(seed).uniform(-1.5, 1.5, len(ARGUMENTS)).astype(np.float32)
    same_bits_in_both_modes(slopes, list(args), text)


def same_bits_in_both_modes(f: Callable[..., Any], args: list[Any], text: str) -> Any:
    """Value and gradient, which are the same bits in both modes."""
    found = []
    for mode in modes.MODES:
        with modes.using(mode=mode, kernels="ref"):
            found.append(value_and_grad(f, tuple(range(len(args))))(*args))
    bits = [[(a.dtype, a.tobytes()) for a in map(np.asarray, (y, *g))] for y, g in found]
    assert bits[0] == bits[1], f"{found} in {modes.MODES}\n{text}"
    return found[0]


def _slope(f: Callable[..., Any], args: list[float], i: int, h: float) -> float:
    up, down = ([a + s * h * (j == i) for j, a in enumerate(args)] for s in (1, -1))
    return float((f(*up) - f(*down)) / (2 * h))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    args = parser.parse_args()
    kinks = 0
    for seed in range(args.first, args.first + args.count):
        kinks += not check(seed)
        check_reference_kernels(seed)
        check_second_derivatives(seed)
    print(
        f"{args.count} random programs agree with the tape and are the same bits in both modes; "
        f"with finite differences all agree but {kinks} that have a kink within {STEPS[0]} of "
        "their arguments"
    )


if __name__ == "__main__":
    main()
