"""Operators from formulas over indices, derivatives included (docs/formulas.md)."""

from cloud.formula.language import FormulaError
from cloud.formula.operator import Formula, formula

__all__ = ["Formula", "FormulaError", "formula"]
