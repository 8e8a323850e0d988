"""The peers' training workloads by MindSpan: an adapter for their harness, see README.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cloud import nn, ops, train
from cloud.nn.attention import attention, causal_mask
from ir.graph import Array, Value, Weight


class MindSpan:
    """The steps of one workload; `w` is what the harness gives to every adapter."""

    name = "mindspan"
    venv = "venv-mindspan"
    libs = ("ir", "cloud", "lite_runtime", "numpy", "numpy.libs", "flatbuffers", "tqdm")

    def __init__(self, w: Any, threads: int) -> None:
        self.w, self.net = w, Net(w)
        self.named = self.net.named_weights()
        for name, weight in self.named.items():
            weight.data = ours(w.params[name], w.spec[name], weight.rank)
        self.lr = w.opt["lr"]
        x = np.moveaxis(w.x, 2, -1) if w.x.ndim == 5 else w.x
        batches = [train.ArrayDataset(x=x[i], label=y) for i, y in enumerate(w.y)]
        self.batches = [b.columns for b in batches]
        trained = {self.named[name] for name in w.trainable}
        self.trainer = train.Trainer(
            self.net,
            batches[0],
            optimizer=optimizer(**w.opt),
            loss=nn.loss.cross_entropy(),
            metrics={},
            trainable=[name for name, weight in self.net.weights().items() if weight in trained],
            threads=threads,
        )

    def step(self, i: int) -> float:
        return self.trainer.step(self.batches[i % len(self.batches)], self.lr)["loss"]

    def sync(self) -> None:
        """A step has ended when it returns."""

    def value(self, loss: float) -> float:
        return loss

    def weights(self) -> dict[str, Array]:
        self.trainer.pull()
        return {name: theirs(w.data, self.w.spec[name]) for name, w in self.named.items()}


class Net(nn.Module):
    """A workload's list of nodes, run in order; `layers` holds those with weights by result."""

    def __init__(self, w: Any) -> None:
        self.nodes = w.nodes
        self.layers = {
            n["out"]: layer for n in w.nodes if (layer := layer_of(n, w.spec)) is not None
        }

    def children(self) -> Iterator[tuple[str, nn.Module]]:
        return iter(self.layers.items())

    def forward(self, x: Value) -> Value:
        values = {"x": x}
        for n in self.nodes:
            x = values[n["in"]]
            if n["out"] in self.layers:
                y = self.layers[n["out"]](x)
            elif n["op"] == "add":
                y = x + values[n["b"]]
            elif n["op"] == "attn":
                y = causal(x, values[n["k"]], values[n["v"]], n["heads"])
            else:
                y = PLAIN[n["op"]](x)
            values[n["out"]] = y
        return y

    def named_weights(self) -> dict[str, Weight]:
        """Weights by the workload's names."""
        return {
            n[key]: getattr(self.layers[n["out"]], attribute)
            for n in self.nodes
            for key, attribute in WEIGHTS.get(n["op"], {}).items()
            if n[key]
        }


class Embedding(nn.Module):
    """y = the rows of the tokens plus those of their places     i32 [n,t] -> [n,t,size]"""

    def __init__(self, tokens: int, places: int, size: int) -> None:
        self.token = nn.Embedding(tokens, size, **GIVEN)
        self.weight = self.token.weight
        self.position = nn.Embedding(places, size, **GIVEN).weight

    def forward(self, x: Value) -> Value:
        return self.token(x) + self.position


PLAIN: dict[str, nn.Layer] = {
    "relu": nn.ReLU(),
    "relu6": nn.ReLU6(),
    "gelu": nn.GELU("tanh"),
    "maxpool2": nn.MaxPool2d(2),
    "gap": nn.GlobalAveragePool(),
    "flatten": nn.Flatten(),
}
GIVEN: dict[str, Any] = {"init": nn.init.zeros, "rng": None}  # the workload's values come later
WEIGHTS = {
    "conv2d": {"w": "weight", "b": "bias"},
    "linear": {"w": "weight", "b": "bias"},
    "bn": {"g": "scale", "b": "bias", "rm": "running_mean", "rv": "running_variance"},
    "ln": {"g": "scale", "b": "bias"},
    "embed": {"w": "weight", "pos": "position"},
}


def layer_of(n: dict[str, Any], spec: dict[str, Any]) -> nn.Module | None:
    """The layer of a node that has weights."""
    if n["op"] == "linear":
        return nn.Linear(n["cin"], n["cout"], **GIVEN)
    if n["op"] == "bn":
        return nn.BatchNorm(n["c"])
    if n["op"] == "ln":
        return nn.LayerNorm(n["d"])
    if n["op"] == "embed":
        (tokens, size), (places, _) = spec[n["w"]]["shape"], spec[n["pos"]]["shape"]
        return Embedding(tokens, places, size)
    if n["op"] != "conv2d":
        return None
    outputs, inputs, size, _ = spec[n["w"]]["shape"]
    how = {"stride": n["stride"], "padding": n["pad"], "bias": bool(n["b"]), **GIVEN}
    if n["groups"] == outputs > 1:
        return nn.DepthwiseConv2d(outputs, size, **how)
    return nn.Conv2d(inputs * n["groups"], outputs, size, groups=n["groups"], **how)


def causal(q: Value, k: Value, v: Value, heads: int) -> Value:
    """The heads' causal attention side by side     three of [n,t,size] -> [n,t,size]"""
    n, t, size = q.shape

    def split(x: Value) -> Value:
        return ops.transpose(ops.reshape(x, shape=(n, t, heads, size // heads)), perm=(0, 2, 1, 3))

    y = attention(split(q), split(k), split(v), causal_mask(t))
    return ops.reshape(ops.transpose(y, perm=(0, 2, 1, 3)), shape=q.shape)


def optimizer(kind: str, lr: float, **rest: float) -> train.Optimizer:
    """The optimiser that a workload names."""
    if kind == "adam":
        return train.Adam(lr, beta1=rest["b1"], beta2=rest["b2"], epsilon=rest["eps"])
    return train.Momentum(lr, momentum=rest["momentum"]) if rest["momentum"] else train.SGD(lr)


def ours(a: Array, spec: dict[str, Any], rank: int) -> Array:
    """A weight of the workload, whose images are channels first, as our layers hold it."""
    if spec["layout"] == "conv":  # [k,c,r,s] -> [k,r,s,c], depthwise [c,1,r,s] -> [r,s,c]
        return a[:, 0].transpose(1, 2, 0) if rank == 3 else np.moveaxis(a, 1, -1)
    if spec["layout"] == "fc_flat":
        return np.moveaxis(a.reshape(len(a), *spec["chw"]), 1, -1).reshape(a.shape)
    return a


def theirs(a: Array, spec: dict[str, Any]) -> Array:
    """The inverse of `ours`."""
    if spec["layout"] == "conv":
        return a.transpose(2, 0, 1)[:, None] if a.ndim == 3 else np.moveaxis(a, -1, 1)
    if spec["layout"] == "fc_flat":
        c, h, w = spec["chw"]
        return np.moveaxis(a.reshape(len(a), h, w, c), -1, 1).reshape(a.shape)
    return a
