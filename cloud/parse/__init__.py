"""The front end: Python functions whose control flow depends on values become graphs.

What is known while a function is traced (numbers of Python, shapes, lists, objects) is computed as
Python computes it; values become nodes; conditions, loops and recursion that depend on values
become `cond`, `while_loop` and `call`. See docs/differentiation.md.
"""

from cloud.parse.errors import Disagreement, NotKnown, UnsupportedSyntax
from cloud.parse.functions import opaque
from cloud.parse.machine import call, is_tracing
from cloud.parse.remat import remat

__all__ = ["Disagreement", "NotKnown", "UnsupportedSyntax", "call", "is_tracing", "opaque", "remat"]
