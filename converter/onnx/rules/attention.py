"""Attention, and what goes with it: rotary embeddings, causal convolution with a state."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.items import Item, as_value, floats, indices, iota
from converter.onnx.rules.common import Reader, rule
from converter.onnx.rules.scopes import inline
from converter.onnx.rules.steps import stepped
from ir.dtype import DType
from ir.graph import Constant, Value
from ir.ops.compare import equal, greater_equal, less, less_equal, logical_and, where
from ir.ops.conv import depthwise_conv2d
from ir.ops.elementwise import exp, sigmoid, tanh
from ir.ops.index import gather
from ir.ops.linalg import matmul
from ir.ops.norm import softmax
from ir.ops.reduce import reduce_max
from ir.ops.shaping import broadcast_to, concat, pad, reshape, slice_axis, transpose
from ir.symbol import Dim

NEVER = -np.inf


@rule("Attention")
def attention(
    _: Reader,
    attrs: dict[str, Any],
    q: Item,
    k: Item,
    v: Item,
    mask: Item = None,
    past_k: Item = None,
    past_v: Item = None,
    filled: Item = None,
) -> tuple[Value, Value, Value, Value]:
    """(result, keys and values with those of the past before them, scores as they are asked for)"""
    flat = len(as_value(q).shape) == 3
    queries = _heads(floats(q), attrs.get("q_num_heads"))
    keys, values = (_heads(floats(t), attrs.get("kv_num_heads")) for t in (k, v))
    before: Dim = 0
    if past_k is not None:
        before = as_value(past_k).shape[2]
        keys, values = (
            concat(floats(old), new, axis=2) for old, new in ((past_k, keys), (past_v, values))
        )
    scale = attrs.get("scale") or 1 / math.sqrt(_fixed(queries.shape[3]))
    scores = _grouped_product(queries * scale, keys, transpose_b=True)
    stages = [scores]
    if cap := attrs.get("softcap", 0.0):
        scores = tanh(scores * (1 / cap)) * cap
    stages.append(scores)
    scores, empty = _biased(attrs, scores, mask, before, filled)
    stages.append(scores)
    weights = _weights(scores) if empty else softmax(scores, axis=3)
    stages.append(weights)
    y = _grouped_product(weights, values)
    if flat:
        y = transpose(y, perm=(0, 2, 1, 3))
        y = reshape(y, shape=(*y.shape[:2], y.shape[2] * y.shape[3]))
    return y, keys, values, stages[attrs.get("qk_matmul_output_mode", 0)]


def _fixed(size: Dim) -> int:
    if not isinstance(size, int):
        raise ConvertError(f"heads of size {size}; want a fixed one")
    return size


def _heads(x: Value, count: int | None) -> Value:
    """[n,s,h d] -> [n,h,s,d]; one of rank 4 is so already."""
    if x.rank == 4:
        return x
    if not count:
        raise ConvertError("inputs of rank 3 without q_num_heads and kv_num_heads")
    n, s, width = x.shape
    return transpose(reshape(x, shape=(n, s, count, width // count)), perm=(0, 2, 1, 3))  # type: ignore[no-any-return]


def _grouped_product(a: Value, b: Value, **how: bool) -> Value:
    """The products of heads; where b has fewer, each is for several of a's in a row."""
    if a.shape[1] == b.shape[1]:
        return matmul(a, b, **how)  # type: ignore[no-any-return]
    n, h, *rest = a.shape
    groups = b.shape[1]
    apart = reshape(a, shape=(n, groups, h // groups, *rest))
    y = matmul(apart, reshape(b, shape=(*b.shape[:2], 1, *b.shape[2:])), **how)
    return reshape(y, shape=(n, h, *y.shape[3:]))  # type: ignore[no-any-return]


def _biased(
    attrs: dict[str, Any], scores: Value, mask: Item, before: Dim, filled: Item
) -> tuple[Value, bool]:
    """The scores with what may not be seen at minus infinity; whether a query may see nothing."""
    queries, total = scores.shape[2:]
    allowed: Value | None = None
    if mask is not None:
        m = as_value(mask)
        missing = total - m.shape[-1]
        if m.dtype is DType.bool:
            allowed = m if missing == 0 else _longer(m, missing, 0.0)
        else:
            m = floats(m)
            scores = scores + (m if missing == 0 else _longer(m, missing, NEVER))
    seen = _window(attrs, queries, total, before, filled)
    for part in seen:
        allowed = part if allowed is None else logical_and(allowed, part)
    if allowed is not None:
        scores = where(allowed, scores, NEVER)
    return scores, mask is not None or bool(seen)


def _longer(mask: Value, missing: Dim, fill: float) -> Value:
    none = (0,) * (mask.rank - 1)
    return pad(mask, before=(*none, 0), after=(*none, missing), value=fill)  # type: ignore[no-any-return]


def _window(
    attrs: dict[str, Any], queries: Dim, total: Dim, before: Dim, filled: Item
) -> list[Value]:
    """Which keys a query may see, by where both stand: truth values that stretch to the scores."""
    keys = as_value(iota(total))
    place = reshape(as_value(iota(queries)), shape=(queries, 1))
    found: list[Value] = []
    if filled is not None:
        count = as_value(indices(filled))
        count = reshape(count, shape=(count.shape[0], 1, 1, 1))
        found.append(less(keys, count))
        place = place + (count - _fixed(queries))
    elif before != 0:
        place = place + _fixed(before)
    left, right = attrs.get("left_window_size", -1), attrs.get("right_window_size", -1)
    if attrs.get("is_causal"):
        found.append(less_equal(keys, place))
    if right >= 0:
        found.append(less_equal(keys, place + right))
    if left >= 0:
        found.append(greater_equal(keys, place - left))
    return found


def _weights(scores: Value) -> Value:
    """softmax; zeros where everything is at minus infinity."""
    nothing = equal(reduce_max(scores, axes=(3,), keep_dims=True), NEVER)
    weights = softmax(where(nothing, 0.0, scores), axis=3)
    return where(nothing, 0.0, weights)  # type: ignore[no-any-return]


@rule("ai.onnx.preview.FlexAttention")
def flexible_attention(reader: Reader, attrs: dict[str, Any], q: Item, k: Item, v: Item) -> Value:
    """With graphs of the model's own for the scores and for the weights."""
    queries, keys, values = map(floats, (q, k, v))
    scale = attrs.get("scale") or 1 / math.sqrt(_fixed(queries.shape[3]))
    scores = _grouped_product(queries * scale, keys, transpose_b=True)
    if "score_mod" in attrs:
        scores = floats(inline(reader, attrs["score_mod"], [scores])[0])
    weights = _weights(scores)
    if "prob_mod" in attrs:
        weights = floats(inline(reader, attrs["prob_mod"], [weights])[0])
    return _grouped_product(weights, values)


@rule("RotaryEmbedding")
def rotary_embedding(
    _: Reader, attrs: dict[str, Any], x: Item, cos: Item, sin: Item, positions: Item = None
) -> Item:
    """Pairs of features turned by angles that depend on the place     Su et al. 2021"""
    v = floats(x)
    flat = v.rank == 3
    heads = _heads(v, attrs.get("num_heads"))
    n, h, s, width = heads.shape
    size = attrs.get("rotary_embedding_dim") or _fixed(width)
    turned, rest = slice_axis(heads, 0, size, axis=3), slice_axis(heads, size, width, axis=3)
    angles = []
    for table in (cos, sin):
        t = floats(table)
        if positions is not None:
            t = gather(t, as_value(indices(positions, t.shape[0])), axis=0)
        angles.append(reshape(t, shape=(t.shape[0], 1, *t.shape[1:])))
    c, d = angles
    step = 2 if attrs.get("interleaved") else 1
    half = size // 2
    if step == 2:
        a, b = (slice_axis(turned, i, size, axis=3, step=2) for i in (0, 1))
    else:
        a, b = (slice_axis(turned, i * half, (i + 1) * half, axis=3) for i in (0, 1))
    parts = [c * a - d * b, d * a + c * b]
    if step == 2:
        parts = [reshape(p, shape=(*p.shape, 1)) for p in parts]
    y = reshape(concat(*parts, axis=3 + (step == 2)), shape=turned.shape)
    y = y if size == width else concat(y, rest, axis=3)
    if not flat:
        return y  # type: ignore[no-any-return]
    return reshape(transpose(y, perm=(0, 2, 1, 3)), shape=(n, s, h * width))  # type: ignore[no-any-return]


@rule("CausalConvWithState")
def causal_conv(
    _: Reader, attrs: dict[str, Any], x: Item, w: Item, bias: Item = None, past: Item = None
) -> tuple[Value, Value]:
    v, window = floats(x), floats(w)
    c, _one, k = window.shape
    k = _fixed(k)
    if past is None:
        whole = pad(v, before=(0, 0, k - 1), after=(0, 0, 0))
    else:
        whole = concat(floats(past), v, axis=2)
    image = reshape(transpose(whole, perm=(0, 2, 1)), shape=(v.shape[0], whole.shape[2], 1, c))
    taps = transpose(reshape(window, shape=(c, k, 1)), perm=(1, 2, 0))
    y = depthwise_conv2d(image, taps, None if bias is None else floats(bias))
    y = transpose(reshape(y, shape=(v.shape[0], v.shape[2], c)), perm=(0, 2, 1))
    if attrs.get("activation", "none") != "none":
        y = y * sigmoid(y)
    end = whole.shape[2]
    return y, slice_axis(whole, end - (k - 1), end, axis=2)


@rule("LinearAttention")
def linear_attention(
    _: Reader, attrs: dict[str, Any], q: Item, k: Item, v: Item, past: Item = None,
    decay: Item = None, beta: Item = None,
) -> tuple[Value, Value]:  # fmt: skip
    """A state [n,h,k,v] that every step changes by a product of a key and a value

    Katharopoulos et al. 2020; Yang et al. 2024.
    """
    heads, groups = attrs["q_num_heads"], attrs["kv_num_heads"]
    how = attrs.get("update_rule", "gated_delta")
    queries = _by_step(floats(q), heads)
    keys, values = (_by_step(floats(t), groups) for t in (k, v))
    (_t, n, _h, width), depth = queries.shape, values.shape[3]
    scale = attrs.get("scale") or 1 / math.sqrt(_fixed(width))
    if past is None:
        state = broadcast_to(Constant(np.zeros((), np.float32)), shape=(n, groups, width, depth))
    else:
        state = floats(past)
    rows = [queries * scale, keys, values]
    if "gated" in how:
        g = exp(_by_step(floats(decay), groups))
        rows.append(reshape(g, shape=(*g.shape, 1)))
    if "delta" in how:
        b = floats(beta)
        b = _by_step(b, groups if b.shape[2] != 1 else 1)
        rows.append(b)

    def step(now: tuple[Value, ...], states: tuple[Value, ...], _: Any) -> Any:
        query, key, value, *rest = now
        (s,) = states
        s = s * rest[0] if "gated" in how else s
        if "delta" in how:
            seen = matmul(reshape(key, shape=(n, groups, 1, width)), s)
            value = (value - reshape(seen, shape=value.shape)) * rest[-1]
        column = reshape(key, shape=(n, groups, width, 1))
        s = s + column * reshape(value, shape=(n, groups, 1, depth))
        apart = reshape(query, shape=(n, groups, heads // groups, width))
        return (s,), (reshape(matmul(apart, s), shape=(n, heads * depth)),)

    (last,), (y,) = stepped(step, rows, [state])
    return transpose(y, perm=(1, 0, 2)), last


def _by_step(x: Value, heads: int) -> Value:
    """[n,t,h d] -> [t,n,h,d]"""
    n, t, width = x.shape
    return transpose(reshape(x, shape=(n, t, heads, width // heads)), perm=(1, 0, 2, 3))  # type: ignore[no-any-return]
