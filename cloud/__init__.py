"""Train, differentiate, compress and search models; everything ends as one graph."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from cloud import ops
from cloud.custom import custom_gradient, hook
from cloud.differentiate import grad, grad_source, jvp, stop_gradient, value_and_grad, vjp
from cloud.eager import Tensor, tensor
from cloud.jit import jit
from cloud.modes import set_mode
from cloud.parse import UnsupportedSyntax, remat
from cloud.probe import run_subgraph, run_until

__all__ = [
    "Tensor",
    "UnsupportedSyntax",
    "custom_gradient",
    "explain",
    "grad",
    "grad_source",
    "hook",
    "jit",
    "jvp",
    "nn",
    "ops",
    "remat",
    "run_subgraph",
    "run_until",
    "set_mode",
    "stop_gradient",
    "tensor",
    "train",
    "value_and_grad",
    "vjp",
]

_LATER = {"explain": "cloud.explanation", "nn": "cloud.nn", "train": "cloud.train"}


def __getattr__(name: str) -> Any:
    """What not every program needs is imported when it is first asked for."""
    if name not in _LATER:
        raise AttributeError(f"module 'cloud' has no attribute {name!r}")
    module = import_module(_LATER[name])
    return getattr(module, name, module)
