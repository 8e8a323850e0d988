"""A module: a function of values that owns weights and other modules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from cloud import eager
from cloud.eager import Tensor, watching
from cloud.jit import call
from cloud.parse.structure import rebuilt, values_in
from cloud.parse.table import calls_of
from cloud.tracing import current, tracing
from ir.dtype import DType
from ir.errors import GraphError
from ir.graph import Array, Constant, Value, Weight, shape_text


class Module(ABC):
    """A layer or a whole net. Subclasses keep weights and modules in attributes (or in lists of
    modules) and write `forward`. Names are paths of attributes from the module that is asked:
    `features.0.weight`. They follow the order of assignment and are the same in every run.

    Calling a module on values adds to their graph; calling it on arrays (or None, for an input that
    is left out) computes the inference.
    """

    frozen = False  # set by `freeze`: the layer behaves as in inference, also in training

    @abstractmethod
    def forward(self, *inputs: Any) -> Any:
        """The module's result for `inputs`."""

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        given = (*inputs, *named.values())
        if given and not any(isinstance(x, Value) for x in given):
            if not watching():
                return self._infer(inputs, named)
            # a derivative is under way, perhaps by the weights: the arrays are tensors of it
            inputs, named = rebuilt((inputs, named), lambda x: _constant(x, Tensor))
        with current().inside(self):
            y = eager.call(self.forward, *inputs, **named)
        current().calls.append((self, y))
        return y

    @property
    def training(self) -> bool:
        """Whether this call is traced for training and the layer is not frozen."""
        return current().training and not self.frozen

    def children(self) -> Iterator[tuple[str, Module]]:
        """The modules that this one holds itself, with their names."""
        for name, held in vars(self).items():
            if isinstance(held, Module):
                yield name, held
            elif isinstance(held, (list, tuple)):
                yield from ((f"{name}.{i}", m) for i, m in enumerate(held) if isinstance(m, Module))

    def modules(self, prefix: str = "") -> dict[str, Module]:
        """This module (under the empty name) and all below it, each once, by name."""
        found: dict[str, Module] = {}
        self._collect(prefix, found, set())
        return found

    def weights(self, prefix: str = "") -> dict[str, Weight]:
        """Every weight of this module and those below it, each once, by name."""
        found: dict[Weight, str] = {}
        for path, module in self.modules(prefix).items():
            for name, w in module.own_weights().items():
                found.setdefault(w, _join(path, name))
        return {name: w for w, name in found.items()}

    def own_weights(self) -> dict[str, Weight]:
        """The weights that this module holds itself."""
        return {name: w for name, w in vars(self).items() if isinstance(w, Weight)}

    def name_weights(self, prefix: str = "") -> dict[str, Weight]:
        """`weights()`, once each weight carries that name; done before a graph goes to a file."""
        named = self.weights(prefix)
        for name, w in named.items():
            w.name = name
        return named

    @property
    def dtype(self) -> DType:
        """The float type that the module computes in: that of its weights."""
        return next((w.dtype for w in self.weights().values() if w.dtype.is_float), DType.f32)

    def to(self, dtype: DType) -> None:
        """Make every float weight one of another type; float64 makes an oracle of the interpreter.

        The weights are new: graphs that were traced before keep the old ones.
        """
        new: dict[Weight, Weight] = {}
        for module in self.modules().values():
            for name, w in module.own_weights().items():
                if w.dtype.is_float:
                    data = w.data.astype(dtype.numpy)
                    new.setdefault(
                        w, Weight(data, name=str(w.name), trainable=w.trainable, state=w.state)
                    )
                    setattr(module, name, new[w])

    def trainable_weights(self) -> dict[str, Weight]:
        return {name: w for name, w in self.weights().items() if w.trainable}

    def freeze(self, *patterns: str) -> None:
        """Make the weights that match a shell pattern constant (all of them by default).

        A layer of which every weight is frozen behaves as in inference: its batch statistics and
        its random key stay as they are. Raises GraphError for a pattern that matches nothing.
        """
        self._set_frozen(patterns, frozen=True)

    def unfreeze(self, *patterns: str) -> None:
        """Undo `freeze` for the weights that match a pattern (all of them by default)."""
        self._set_frozen(patterns, frozen=False)

    def state_dict(self) -> dict[str, Array]:
        """A copy of every weight's data by name."""
        return {name: w.data.copy() for name, w in self.weights().items()}

    def load_state_dict(self, state: Mapping[str, Array], *, strict: bool = True) -> None:
        """Set the weights. Raises GraphError, and changes nothing, where names or shapes differ;
        `strict=False` takes the names that both have."""
        weights = self.weights()
        if strict and (odd := sorted(state.keys() ^ weights.keys())):
            raise GraphError(f"state: {', '.join(odd)} in only one of state and module")
        common = {name: np.asarray(a) for name, a in state.items() if name in weights}
        for name, a in common.items():
            if (w := weights[name]).shape != a.shape:
                raise GraphError(f"state: {name} is {list(a.shape)}, want {shape_text(w.shape)}")
        for name, a in common.items():
            weights[name].data = np.array(a, weights[name].dtype.numpy)

    def _infer(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        def array(x: Any) -> Array | None:
            return None if x is None else np.asarray(x)

        with tracing():
            given = {name: array(x) for name, x in named.items()}
            return call(self.forward, *map(array, inputs), **given)

    def _collect(self, path: str, found: dict[str, Module], seen: set[int]) -> None:
        if id(self) in seen:
            return
        seen.add(id(self))
        found[path] = self
        for name, child in self.children():
            child._collect(_join(path, name), found, seen)

    def _set_frozen(self, patterns: tuple[str, ...], *, frozen: bool) -> None:
        patterns = patterns or ("*",)
        weights = self.weights()
        chosen: set[Weight] = set()
        for p in patterns:
            matching = [p] if p in weights else [n for n in weights if fnmatchcase(n, p)]
            if not matching:
                raise GraphError(f"no weight matches {p!r}; there are {', '.join(weights)}")
            chosen.update(weights[name] for name in matching)
        for w in chosen:
            w.trainable = not frozen and not w.state
        for module in self.modules().values():
            own = list(module.own_weights().values())
            if frozen and own and chosen.issuperset(own):
                module.frozen = True
            elif not frozen and chosen.intersection(own):
                module.frozen = False


@calls_of(Module)
def _interpreted(m: Any, module: Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """A module called in interpreted code: its `forward` is, too, where it is the user's."""
    if inputs and not values_in([inputs, named]):  # the weights may be what a derivative is by
        inputs, named = rebuilt((inputs, named), lambda x: _constant(x, Constant))
    before = len(current()._states)
    with current().inside(module):
        y = m.call(module.forward, inputs, named)
    if m.staged_depth and len(current()._states) > before:
        raise m.refused(
            f"{type(module).__name__} updates its state in a branch or loop that data decide",
            "let it run where it always runs, or freeze it",
        )
    current().calls.append((module, y))
    return y


def _constant(x: Any, kind: type[Constant]) -> Any:
    return kind(x) if isinstance(x, (np.ndarray, np.generic)) else x


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
