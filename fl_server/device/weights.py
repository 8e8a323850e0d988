"""The weights of a session as vectors: those that are shared, and those that stay on the device.

The global weights travel as one float32 vector: the trainable weights of the model but for those of
local layers, flattened, in the order of their sorted names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from fl_server.errors import EncodingError, MissingRuntime, SettingsError
from fl_server.secagg.encode import Floats


def initial_weights(model: bytes, local: Sequence[str] = ()) -> Floats:
    """The trainable weights in a .ms file     -> float32 [d]; raises SettingsError

    local: patterns (`head.*`) of names that are left out, as they stay on devices
    """
    session = load_session(model, 1)
    return flatten(session, split_names(session, local)[0])


def save_model(model: bytes, weights: Floats, path: str) -> None:
    """Write the .ms file of a model with these global weights."""
    session = load_session(model, 1)
    assign(session, weights)
    session.save(path)


def split_names(session: Any, local: Sequence[str]) -> tuple[list[str], list[str]]:
    """The trainable weights that are shared, and those that stay here, sorted.

    raises SettingsError where a pattern names no weight, or nothing is left to share
    """
    names = sorted(session.weights(trainable=True))
    for pattern in local:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise SettingsError(f"local {pattern!r} names no weight; there are {', '.join(names)}")
    own = [name for name in names if any(fnmatchcase(name, pattern) for pattern in local)]
    if local and len(own) == len(names):
        raise SettingsError(f"local {', '.join(local)} leaves no weight to share")
    return [name for name in names if name not in own], own


def flatten(session: Any, names: Sequence[str] | None = None) -> Floats:
    """The trainable weights of a session, or those of these names     -> float32 [d]"""
    named: Mapping[str, Floats] = session.weights(trainable=True)
    chosen = sorted(named) if names is None else names
    parts = [np.asarray(named[name], np.float32).ravel() for name in chosen]
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def assign(session: Any, weights: Floats, names: Sequence[str] | None = None) -> None:
    """Set the trainable weights, or those of these names.     raises EncodingError"""
    named: Mapping[str, Floats] = session.weights(trainable=True)
    chosen = sorted(named) if names is None else names
    total = sum(named[name].size for name in chosen)
    if weights.shape != (total,):
        raise EncodingError(f"weights of shape {list(weights.shape)} for {total} trainable values")
    parts, start = {}, 0
    for name in chosen:
        size, shape = named[name].size, named[name].shape
        parts[name] = np.ascontiguousarray(weights[start : start + size], np.float32).reshape(shape)
        start += size
    session.set_weights(parts)


def load_session(model: bytes, threads: int, **limits: float) -> Any:
    lite = runtime()
    try:
        return lite.load(model, threads=threads, **limits)
    except lite.LiteError as error:
        raise SettingsError(f"the model does not load: {error}") from None


def runtime() -> Any:
    try:
        import lite_runtime.files
    except ImportError as error:
        raise MissingRuntime(f"the lite runtime is not built: {error}") from None
    return lite_runtime
