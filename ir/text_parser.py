"""The parser of graphs as text; `ir/text.py` describes what they look like."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ir.dtype import DType
from ir.errors import GraphError, IrError
from ir.graph import Array, Constant, Function, Graph, Shape, Value, Weight, shape_text
from ir.op import OPS, Op, attr_kind
from ir.symbol import Dim
from ir.symbol import parse as parse_size

_STRING = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(
    rf"""\s*(?:
      (?P<value>%(?:{_STRING}|[A-Za-z_][\w.]*|\d+)(?:\#\d+)?)
    | (?P<string>{_STRING})
    | (?P<hash>sha256:[0-9a-f]+)
    | (?P<number>-?(?:inf|nan)\b|-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)
    | (?P<word>[A-Za-z_][\w.]*)
    | (?P<mark>->|//|[-+*(){{}}\[\],:=@])
    | (?P<end>$)
    )""",
    re.VERBOSE,
)
_FUNCTION = re.compile(r"^function\b", re.MULTILINE)  # nothing else starts a line like this


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int  # where it starts
    end: int


class Parser:
    """Recursive descent over the text, one method a rule."""

    def __init__(
        self, text: str, weights: Mapping[str, Weight], constants: Mapping[str, Array]
    ) -> None:
        self.text = text
        self.weights = weights
        self.constants = constants
        self.functions: dict[str, Function] = {}
        self._declare_functions()
        self.token = self._scan(0)

    def whole(self) -> Graph:
        """The graph that the whole text is."""
        while self._accept("function"):
            self._function()
        graph = self._graph()
        if self.token.kind != "end":
            self._fail("want the end of the text")
        return graph

    def _declare_functions(self) -> None:
        """Read the first line of every function, for bodies may call what stands behind them."""
        for match in _FUNCTION.finditer(self.text):
            self.token = self._scan(match.end())
            token = self.token
            name = self._function_name()
            if name in self.functions:
                self._fail(f"function {name!r} stands here twice", token)
            inputs = [(v.shape, v.dtype) for v in self._inputs({})]
            self.functions[name] = Function(name, inputs, self._result_types())

    def _function(self) -> None:
        """`function name(%a: type, …) -> type, … {…}`"""
        start = self.token
        function = self.functions[self._function_name()]
        values: dict[str, Value] = {}
        inputs = self._inputs(values)
        self._result_types()
        try:
            function.graph = self._body(values, inputs, start)
        except GraphError as error:
            if str(error).startswith("text, "):
                raise
            self._fail(str(error), start)

    def _function_name(self) -> str:
        token = self.token
        if token.kind not in ("word", "string"):
            self._fail("want the name of a function")
        self._advance()
        return str(json.loads(token.text)) if token.kind == "string" else token.text

    def _result_types(self) -> list[tuple[Shape, DType]]:
        self._expect("->")
        found: list[tuple[Shape, DType]] = []
        while self.token.kind == "word":
            dtype = self._dtype()
            found.append((self._sizes(), dtype))
            if not self._accept(","):
                break
        return found

    def _graph(self) -> Graph:
        start = self.token
        self._expect("graph")
        values: dict[str, Value] = {}
        return self._body(values, self._inputs(values), start)

    def _inputs(self, values: dict[str, Value]) -> list[Value]:
        """`(%a: type, …)`"""
        inputs: list[Value] = []
        self._expect("(")
        while not self._accept(")"):
            ((token, shape, dtype),) = self._declarations(1)
            inputs.append(self._add(values, token, Value(shape, dtype)))
            if not self._accept(","):
                self._expect(")")
                break
        return inputs

    def _body(self, values: dict[str, Value], inputs: list[Value], start: _Token) -> Graph:
        """`{ statements, return, updates }`"""
        self._expect("{")
        while self.token.kind == "value":
            self._statement(values)
        outputs = self._outputs(values)
        updates = []
        while self._accept("update"):
            updates.append(self._update(values))
        self._expect("}")
        try:
            return Graph(tuple(inputs), tuple(outputs.values()), tuple(outputs), tuple(updates))
        except GraphError as error:
            self._fail(str(error), start)

    def _statement(self, values: dict[str, Value]) -> None:
        """`%a: type, … = what`"""
        results = self._declarations()
        self._expect("=")
        what = self.token
        if self._accept("weight"):
            made: tuple[Value, ...] = (self._weight(results[0][0]),)
        elif self._accept("constant"):
            made = (self._constant(results[0]),)
        else:
            made = self._call(values)
        if len(made) != len(results):
            self._fail(f"{len(results)} results, {what.text} has {len(made)}", what)
        for (token, shape, dtype), v in zip(results, made, strict=True):
            if (v.shape, v.dtype) != (shape, dtype):
                self._fail(f"{what.text} gives {v.dtype!r}{shape_text(v.shape)}", token)
            self._add(values, token, v)

    def _call(self, values: dict[str, Value]) -> tuple[Value, ...]:
        name = self._take("word", "an operator")
        op = OPS.get(name.text)
        if op is None:
            self._fail(f"no operator {name.text!r}", name)
        inputs: list[Value | None] = []
        attrs: dict[str, Any] = {}
        self._expect("(")
        while not self._accept(")"):
            if self._accept("none"):
                inputs.append(None)
            elif self.token.kind == "value":
                inputs.append(self._use(values))
            else:
                self._attribute(op, attrs)
            if not self._accept(","):
                self._expect(")")
                break
        source = json.loads(self._take("string", "a source").text) if self._accept("@") else ""
        try:
            return op.node(inputs, attrs, source).results
        except IrError as error:
            self._fail(str(error), name)

    def _attribute(self, op: Op, attrs: dict[str, Any]) -> None:
        name = self._take("word", "a value, none or an attribute")
        if name.text not in op.attrs or name.text in attrs:
            self._fail(f"{op.name} has no attribute {name.text!r}, or has it already", name)
        self._expect("=")
        kind = attr_kind(op.attrs[name.text])
        if kind == "graph":
            attrs[name.text] = self._graph()
        elif kind == "function":
            token = self.token
            function = self.functions.get(self._function_name())
            if function is None:
                self._fail(f"no function {token.text!r} in the text", token)
            attrs[name.text] = function
        elif kind == "choice":
            attrs[name.text] = json.loads(self._take("string", "a choice").text)
        elif kind == "bool":
            word = self._take("word", "true or false")
            if word.text not in ("true", "false"):
                self._fail("want true or false", word)
            attrs[name.text] = word.text == "true"
        elif kind == "float":
            attrs[name.text] = float(self._take("number", "a number").text)
        else:
            attrs[name.text] = self._sizes() if kind in ("ints", "words") else self._size(",)")

    def _weight(self, token: _Token) -> Weight:
        kind = self._take("word", "trainable, state or frozen")
        name = _name(token)
        weight = self.weights.get(name or "")
        if weight is None:
            self._fail(f"no weight {name!r} was given", token)
        is_kind = {
            "trainable": weight.trainable,
            "state": weight.state,
            "frozen": not (weight.trainable or weight.state),
        }
        if not is_kind.get(kind.text, False):
            self._fail(f"weight {name!r} is not {kind.text}", kind)
        return weight

    def _constant(self, result: tuple[_Token, Shape, DType]) -> Constant:
        token, shape, dtype = result
        at = self.token
        if at.kind == "hash":
            self._advance()
            data = self.constants.get(at.text.removeprefix("sha256:"))
            if data is None:
                self._fail(f"no constant {at.text} was given", at)
        else:
            data = self._elements(dtype)
        sizes = [d for d in shape if isinstance(d, int)]
        if len(sizes) != len(shape) or data.size != math.prod(sizes):
            self._fail(f"{data.size} elements for {shape_text(shape)}", at)
        return Constant(data.reshape(sizes), name=_name(token))

    def _elements(self, dtype: DType) -> Array:
        start = self.token
        self._expect("[")
        texts = []
        while not self._accept("]"):
            texts.append(self.token.text)
            self._advance()
            if not self._accept(","):
                self._expect("]")
                break
        try:
            if dtype is DType.tape:
                raise ValueError
            if dtype is DType.bool:
                return np.array([{"true": True, "false": False}[t] for t in texts], np.bool_)
            if dtype.is_float:
                return np.array(texts or [], dtype.numpy)
            return np.array([int(t) for t in texts], dtype.numpy)
        except (ValueError, KeyError, OverflowError):
            self._fail(f"want elements of {dtype!r}", start)

    def _outputs(self, values: dict[str, Value]) -> dict[str, Value]:
        self._expect("return")
        outputs: dict[str, Value] = {}
        while self.token.kind in ("word", "string") and self.token.text != "update":
            token = self.token
            self._advance()
            name = json.loads(token.text) if token.kind == "string" else token.text
            if name in outputs:
                self._fail(f"output {name!r} stands here twice", token)
            self._expect("=")
            outputs[name] = self._use(values)
            if not self._accept(","):
                break
        return outputs

    def _update(self, values: dict[str, Value]) -> tuple[Weight, Value]:
        token = self.token
        weight = self._use(values)
        if not isinstance(weight, Weight):
            self._fail("want a weight", token)
        self._expect("=")
        return weight, self._use(values)

    def _declarations(self, most: int | None = None) -> list[tuple[_Token, Shape, DType]]:
        """`%a: f32[b,3], %b: …`"""
        found: list[tuple[_Token, Shape, DType]] = []
        while True:
            value = self._take("value", "a value")
            self._expect(":")
            dtype = self._dtype()
            found.append((value, self._sizes(), dtype))
            if len(found) == most or not self._accept(","):
                return found

    def _dtype(self) -> DType:
        word = self._take("word", "an element type")
        if word.text not in DType.__members__:
            self._fail(f"want one of {', '.join(DType.__members__)}", word)
        return DType[word.text]

    def _sizes(self) -> Shape:
        self._expect("[")
        sizes: list[Dim] = []
        while not self._accept("]"):
            sizes.append(self._size(",]"))
            if not self._accept(","):
                self._expect("]")
                break
        return tuple(sizes)

    def _size(self, stops: str) -> Dim:
        """An expression, up to one of `stops` outside of its own brackets."""
        start = last = self.token
        depth = 0
        while self.token.kind != "end" and (depth or self.token.text not in stops):
            depth += {"(": 1, ")": -1}.get(self.token.text, 0)
            last = self.token
            self._advance()
        try:
            return parse_size(self.text[start.at : last.end])
        except (ValueError, ZeroDivisionError) as error:
            self._fail(str(error), start)

    def _use(self, values: dict[str, Value]) -> Value:
        token = self._take("value", "a value")
        if token.text not in values:
            self._fail(f"{token.text} is not defined before its use", token)
        return values[token.text]

    def _add(self, values: dict[str, Value], token: _Token, v: Value) -> Value:
        if token.text in values:
            self._fail(f"{token.text} is defined twice", token)
        if not isinstance(v, Weight):
            v.name = _name(token)
        values[token.text] = v
        return v

    def _accept(self, text: str) -> bool:
        if self.token.text != text or self.token.kind not in ("mark", "word"):
            return False
        self._advance()
        return True

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            self._fail(f"want {text!r}")

    def _take(self, kind: str, what: str) -> _Token:
        token = self.token
        if token.kind != kind:
            self._fail(f"want {what}")
        self._advance()
        return token

    def _advance(self) -> None:
        self.token = self._scan(self.token.end)

    def _scan(self, at: int) -> _Token:
        match = _TOKEN.match(self.text, at)
        if match is None or match.lastgroup is None:
            rest = self.text[at:].lstrip()
            at = len(self.text) - len(rest)
            self._fail("no word of this language", _Token("", rest[:1], at, at))
        kind = match.lastgroup
        token = _Token(kind, match[kind], match.start(kind), match.end())
        try:
            if kind == "value":
                _name(token)
            elif kind == "string":
                json.loads(token.text)
        except ValueError:
            self._fail("want a string of JSON", token)
        return token

    def _fail(self, what: str, token: _Token | None = None) -> NoReturn:
        token = token or self.token
        before = self.text[: token.at]
        line, column = before.count("\n") + 1, token.at - before.rfind("\n")
        found = token.text or "the end"
        raise GraphError(f"text, line {line}, column {column}, at {found!r}: {what}")


def _name(token: _Token) -> str | None:
    """The value's own name: None for a number, without the mark that tells it from others."""
    text = token.text[1:]
    if text.startswith('"'):
        return str(json.loads(text[: text.rindex('"') + 1]))
    return None if text[0].isdigit() else text.partition("#")[0]
