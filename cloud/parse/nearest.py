"""What to write in place of a function of numpy that has no rule for values of a graph."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from ir.op import OPS

_SORTED = "cloud.ops.topk(x, k=size) sorts from the largest down and says where each one lay"
_SPREAD = "np.sum of np.where(np.isnan(x), 0, x - mean) ** 2 over np.sum(~np.isnan(x))"
_COUNTED = "cloud.ops.scatter_add onto zeros counts into known places"
_SOLVED = "elimination written as a loop, or the known matrix inverted before"
_COMPARED = "np.where(c, a, np.where(d, b, other))"
_REPEATED = "a loop, or operators on the whole array"
_REDUCED = "np.sum, np.prod, np.max, np.min, np.all, np.any, np.cumsum"
_INSTEAD = {
    **dict.fromkeys(("sort", "argsort", "median", "percentile", "quantile", "partition"), _SORTED),
    **dict.fromkeys(("nanstd", "nanvar"), _SPREAD),
    **dict.fromkeys(("bincount", "histogram", "digitize"), _COUNTED),
    **dict.fromkeys(("inv", "solve", "det", "eig", "eigh", "svd", "qr", "cholesky"), _SOLVED),
    **dict.fromkeys(("select", "piecewise", "choose"), _COMPARED),
    **dict.fromkeys(("apply_along_axis", "vectorize", "frompyfunc"), _REPEATED),
    **dict.fromkeys(("reduce", "accumulate", "reduceat"), _REDUCED),
    **dict.fromkeys(("append", "insert", "concat", "block"), "np.concatenate"),
    "permute_dims": "np.transpose",
    "matrix_transpose": "np.swapaxes(x, -1, -2)",
    **dict.fromkeys(("ascontiguousarray", "require", "asanyarray"), "np.asarray"),
    **dict.fromkeys(("cov", "corrcoef"), "d = x - np.mean(x, axis=…, keepdims=True) and d @ d.T"),
    "unique": "cloud.ops.unique_rows",
    "nonzero": "cloud.ops.nonzero",
    "flatnonzero": "cloud.ops.nonzero",
    "argwhere": "cloud.ops.nonzero",
    "convolve": "cloud.ops.conv2d",
    "correlate": "cloud.ops.conv2d",
    "cumprod": "cloud.ops.cumprod",
    "take_along_axis": "cloud.ops.gather_elements",
    "average": "np.sum(w * x) / np.sum(w)",
    "interp": "np.where for each of the known pieces",
    "kron": "np.outer of the flat arrays, then reshape and transpose",
    "nansum": "np.sum of np.where(np.isnan(x), 0, x)",
    "nanmean": "np.sum of np.where(np.isnan(x), 0, x) over np.sum(~np.isnan(x))",
    "nanmax": "np.max of np.where(np.isnan(x), -np.inf, x)",
    "nanmin": "np.min of np.where(np.isnan(x), np.inf, x)",
    "nancumsum": "np.cumsum of np.where(np.isnan(x), 0, x)",
    "nanprod": "np.prod of np.where(np.isnan(x), 1, x)",
    "nancumprod": "cloud.ops.cumprod of np.where(np.isnan(x), 1, x)",
    "outer": "x[:, None] and y[None, :], which stretch",
    "cross": "products of the components, then np.stack",
    "array_equal": "np.all(a == b)",
    "count_nonzero": "np.sum(x != 0)",
    "meshgrid": "x[None, :] and y[:, None], which stretch",
    "linspace": "a + (b - a) * np.linspace(0, 1, n)",
    "polyval": "y = y * x + c over the coefficients",
    "delete": "x[places] with the places that stay",
    "gradient": "differences of slices",
    "ediff1d": "np.diff",
    "resize": "np.tile and reshape",
    "searchsorted": "np.sum(edges < x)",
    "cumulative_sum": "np.cumsum",
    "vecdot": "np.sum(a * b, axis=-1)",
    "multi_dot": "a @ b @ c",
    "matrix_power": "x @ x",
    "vector_norm": "np.linalg.norm",
    "copy": "x.copy()",
    "real": "x itself: values are real",
    "imag": "0 * x: values are real",
    "conj": "x itself: values are real",
}
_TRANSFORMED = "x @ np.fft.fft(np.eye(n)).real, and .imag: products with a known matrix"


def nearest(f: Any) -> str:
    """The hint for a function that takes no values: a way that works."""
    name, module = getattr(f, "__name__", ""), str(getattr(f, "__module__", ""))
    if "fft" in module:
        return _TRANSFORMED
    is_numpys = "numpy" in module or isinstance(getattr(f, "__self__", f), np.ufunc)
    if is_numpys and name in _INSTEAD:
        return _INSTEAD[name]
    if is_numpys and name in OPS:
        return f"cloud.ops.{name}"
    return "cloud.ops has the operators; or compute it from known numbers"


def arguments(f: Any, handler: Any) -> str:
    """The hint for a call whose arguments the rule of a function does not take: those it takes."""
    rule = list(inspect.signature(handler.of_values).parameters.values())[1:]
    try:
        theirs = set(inspect.signature(f).parameters)
    except (TypeError, ValueError):  # of Python's own that tell nothing
        theirs = {p.name for p in rule}
    names = [
        p.name if p.kind is not p.VAR_POSITIONAL else f"*{p.name}"
        for p in rule
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) or p.name in theirs
    ]
    return f"of values it takes {', '.join(names)}"
