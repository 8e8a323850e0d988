"""The adapter for the peers' harness, on small workloads in the harness's form: like PyTorch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from bench.peers.mindspan_ad import MindSpan

STEPS, EPSILON = 5, 1e-5
Node = dict[str, Any]


def node(op: str, source: str, result: str, **rest: Any) -> Node:
    return {"op": op, "in": source, "out": result, **rest}


def conv(source: str, result: str, name: str, groups: int = 1, bias: bool = False) -> Node:
    b = f"{name}.b" if bias else None
    return node("conv2d", source, result, w=f"{name}.w", b=b, stride=1, pad=1, groups=groups)


def bn(source: str, result: str, name: str, c: int) -> Node:
    names = {k: f"{name}.{k}" for k in ("g", "b", "rm", "rv")}
    return node("bn", source, result, mode="train", c=c, **names)


def linear(source: str, result: str, name: str, sizes: tuple[int, int]) -> Node:
    return node("linear", source, result, w=f"{name}.w", b=f"{name}.b", cin=sizes[0], cout=sizes[1])


IMAGES = [
    conv("x", "a", "c1", bias=True), bn("a", "b", "n1", 4), node("relu", "b", "c"),
    conv("c", "d", "c2", groups=4), bn("d", "e", "n2", 4), node("relu6", "e", "f"),
    node("add", "c", "g", b="f"), node("maxpool2", "g", "h"), node("flatten", "h", "i"),
    linear("i", "j", "fc", (36, 3)),
]  # fmt: skip
TOKENS = [
    node("embed", "x", "a", w="tok", pos="pos"), node("ln", "a", "b", g="ln.g", b="ln.b", d=8),
    linear("b", "q", "q", (8, 8)), linear("b", "k", "k", (8, 8)), linear("b", "v", "v", (8, 8)),
    node("attn", "q", "c", k="k", v="v", heads=2, d=8, T=5), node("add", "a", "d", b="c"),
    linear("d", "e", "f1", (8, 16)), node("gelu", "e", "f"), linear("f", "g", "f2", (16, 7)),
]  # fmt: skip
SHAPES = {
    "c1.w": (4, 2, 3, 3), "c1.b": (4,), "c2.w": (4, 1, 3, 3), "fc.w": (3, 36), "fc.b": (3,),
    **{f"{n}.{k}": (4,) for n in ("n1", "n2") for k in ("g", "b", "rm", "rv")},
    "tok": (7, 8), "pos": (5, 8), "ln.g": (8,), "ln.b": (8,), "f1.w": (16, 8), "f1.b": (16,),
    "f2.w": (7, 16), "f2.b": (7,), **{f"{n}.w": (8, 8) for n in "qkv"},
    **{f"{n}.b": (8,) for n in "qkv"},
}  # fmt: skip
SGD = {"kind": "sgd", "lr": 0.05, "momentum": 0.9}
ADAM = {"kind": "adam", "lr": 0.01, "b1": 0.9, "b2": 0.999, "eps": 1e-8}


def workload(nodes: list[Node], opt: dict[str, Any], frozen: tuple[str, ...] = ()) -> Any:
    """What the harness gives to adapters: channels first, two batches."""
    rng = np.random.default_rng(0)
    read = [n[k] for n in nodes for k in ("w", "b", "pos", "g", "rm", "rv") if n.get(k) in SHAPES]
    params = {k: rng.normal(0, 0.5, SHAPES[k]).astype(np.float32) for k in dict.fromkeys(read)}
    params |= {k: np.abs(a) + 0.5 for k, a in params.items() if k.endswith(".rv")}
    images = nodes is IMAGES
    x = rng.normal(size=(2, 4, 2, 6, 6)) if images else rng.integers(0, 7, (2, 3, 5))
    layouts = {"c1.w": "conv", "c2.w": "conv", "fc.w": "fc_flat"}
    state = (".rm", ".rv", *frozen)
    spec = {
        k: {
            "shape": list(a.shape), "layout": layouts.get(k, "plain"), "chw": [4, 3, 3],
            "trainable": not k.endswith(state),
        }
        for k, a in params.items()
    }  # fmt: skip
    return SimpleNamespace(
        nodes=nodes, spec=spec, params=params, opt=opt, batch=x.shape[1],
        x=x.astype(np.float32 if images else np.int32),
        y=rng.integers(0, 3 if images else 7, (2, 4) if images else (2, 3, 5)).astype(np.int32),
        trainable=[k for k in sorted(spec) if spec[k]["trainable"]],
    )  # fmt: skip


def result(n: Node, x: torch.Tensor, of: dict[str, torch.Tensor], p: Any) -> torch.Tensor:
    """One node in PyTorch."""
    match n["op"]:
        case "conv2d":
            return F.conv2d(x, p[n["w"]], p.get(n["b"]), padding=n["pad"], groups=n["groups"])
        case "bn":
            statistics = p[n["rm"]], p[n["rv"]]
            return F.batch_norm(x, *statistics, p[n["g"]], p[n["b"]], True, 0.1, EPSILON)
        case "linear":
            return F.linear(x, p[n["w"]], p[n["b"]])
        case "embed":
            return p[n["w"]][x] + p[n["pos"]]
        case "ln":
            return F.layer_norm(x, x.shape[-1:], p[n["g"]], p[n["b"]], EPSILON)
        case "attn":
            heads = [
                t.unflatten(2, (n["heads"], -1)).transpose(1, 2) for t in (x, of["k"], of["v"])
            ]
            y = F.scaled_dot_product_attention(*heads, is_causal=True)
            return y.transpose(1, 2).flatten(2)
        case "add":
            return x + of[n["b"]]
        case "gelu":
            return F.gelu(x, approximate="tanh")
        case "maxpool2":
            return F.max_pool2d(x, 2)
        case op:
            return {"relu": F.relu, "relu6": F.relu6, "flatten": lambda v: v.flatten(1)}[op](x)


def exact_run(w: Any) -> tuple[list[float], dict[str, np.ndarray]]:
    """Losses and weights by PyTorch in float64."""
    p = {k: torch.tensor(a, dtype=torch.float64) for k, a in w.params.items()}
    trained = [p[k].requires_grad_() for k in w.trainable]
    if w.opt["kind"] == "adam":
        optimizer: Any = torch.optim.Adam(trained, w.opt["lr"])
    else:
        optimizer = torch.optim.SGD(trained, w.opt["lr"], w.opt["momentum"])
    losses = []
    for i in range(STEPS):
        x = torch.tensor(w.x[i % 2])
        of = {"x": x.double() if x.is_floating_point() else x}
        for n in w.nodes:
            of[n["out"]] = result(n, of[n["in"]], of, p)
        logits, label = of[w.nodes[-1]["out"]], torch.tensor(w.y[i % 2]).long()
        loss = F.cross_entropy(logits.flatten(0, -2), label.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {k: t.detach().numpy() for k, t in p.items()}


@pytest.mark.parametrize(
    ("nodes", "opt"), [(IMAGES, SGD), (TOKENS, ADAM)], ids=["images", "tokens"]
)
def test_losses_and_weights_follow_float64(nodes: list[Node], opt: dict[str, Any]) -> None:
    w = workload(nodes, opt)
    ours = MindSpan(w, 1)
    for name, a in ours.weights().items():
        np.testing.assert_array_equal(a, w.params[name])
    losses = [ours.value(ours.step(i)) for i in range(STEPS)]
    exact, weights = exact_run(w)
    np.testing.assert_allclose(losses, exact, rtol=2e-6)
    without_slope = {"k.b"}  # softmax does not see it, and Adam makes steps of rounding errors
    for name, a in ours.weights().items():
        if name in without_slope:
            continue
        np.testing.assert_allclose(a, weights[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_what_the_workload_freezes_stays() -> None:
    w = workload(TOKENS, SGD, frozen=("tok", "pos", "q.w"))
    ours = MindSpan(w, 1)
    for i in range(2):
        ours.step(i)
    after = ours.weights()
    stayed = {k for k, a in after.items() if np.array_equal(a, w.params[k])}
    assert stayed - {"k.b"} == {"tok", "pos", "q.w"}  # which has no slope
