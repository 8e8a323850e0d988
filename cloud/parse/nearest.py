"""What to write in place of a function of numpy that has no rule for values of a graph."""

from __future__ import annotations

import difflib
from typing import Any

from cloud.parse.table import TABLE
from ir.op import OPS

_SORTED = "cloud.ops.topk(x, k=size) sorts from the largest down and says where each one lay"
_WITHOUT_NAN = "np.where(np.isnan(x), 0, x) and the same function without nan"
_COUNTED = "cloud.ops.scatter_add onto zeros counts into known places"
_SOLVED = "elimination written as a loop, or the known matrix inverted before"
_INSTEAD = {
    **dict.fromkeys(("sort", "argsort", "median", "percentile", "quantile", "partition"), _SORTED),
    **dict.fromkeys(("nansum", "nanmean", "nanmax", "nanmin", "nanstd", "nanvar"), _WITHOUT_NAN),
    **dict.fromkeys(("bincount", "histogram", "digitize"), _COUNTED),
    **dict.fromkeys(("inv", "solve", "det", "eig", "eigh", "svd", "qr", "cholesky"), _SOLVED),
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
}
_TRANSFORMED = "x @ np.fft.fft(np.eye(n)).real, and .imag: products with a known matrix"


def nearest(f: Any) -> str:
    """The hint for a function that takes no values: the nearest way that works."""
    name, module = getattr(f, "__name__", ""), str(getattr(f, "__module__", ""))
    if "fft" in module:
        return _TRANSFORMED
    if "numpy" in module or type(f).__name__ == "ufunc":
        if name in _INSTEAD:
            return _INSTEAD[name]
        known = {g.__name__: "np." for g in TABLE if "numpy" in str(getattr(g, "__module__", ""))}
        known |= dict.fromkeys((n for n in OPS if n not in known), "cloud.ops.")
        alike = [known[n] + n for n in difflib.get_close_matches(name, known)]
        if alike:
            return f"{', '.join(alike)} is nearest; or compute it from known numbers"
    return "cloud.ops has the operators; or compute it from known numbers"
