"""Passes: one file, one function, graph in, graph out, the same function computed."""

from ir.passes.common_subexpression import common_subexpression
from ir.passes.constant_folding import constant_folding
from ir.passes.dead_code import dead_code

__all__ = ["common_subexpression", "constant_folding", "dead_code"]
