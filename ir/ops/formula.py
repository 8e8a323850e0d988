"""Loops over indices that a formula wrote: any gather with any sum, maximum or minimum."""

from __future__ import annotations

from ir.op import Words, op

NO_PROGRAM = Words()


def _rules():
    from ir.formula import rules  # dear to import: only programs that hold a formula do

    return rules


@op(
    code=341,
    shape=lambda *shapes, **attrs: _rules().shape(*shapes, **attrs),
    dtype=lambda *dtypes, **attrs: _rules().dtype(*dtypes, **attrs),
    samples=lambda: _rules().samples(),
    grad=lambda g, y, *xs, **attrs: _rules().grad(g, y, *xs, **attrs),
)
def formula(*xs, sizes=(), program=NO_PROGRAM):
    """y = what a program of loops over indices makes of xs     (ir/formula/program.py)

    xs: float32 of any shapes. `sizes`: numbers that the loops' bounds and y's shape may depend on.
    """
    return _rules().evaluate(*xs, sizes=sizes, program=program)
