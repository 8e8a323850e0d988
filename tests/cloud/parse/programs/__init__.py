"""Small programs, each a plain function of numbers or arrays with arguments to try it on.

They run as Python on numbers, which is the oracle, and as graphs. `ops` computes on arrays too.
"""

from tests.cloud.parse.programs import (  # noqa: F401  (they enter themselves into the table)
    arrays,
    branches,
    for_loops,
    functions,
    loops,
    objects_and_recursion,
)
from tests.cloud.parse.programs.table import PROGRAMS

__all__ = ["PROGRAMS"]
