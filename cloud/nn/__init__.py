"""Layers and losses. A module is a function of values with weights; see docs/training.md."""

from cloud.nn import init, loss
from cloud.nn.activation import (
    ELU,
    GELU,
    GLU,
    SELU,
    HardSigmoid,
    HardSwish,
    HardTanh,
    LeakyReLU,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)
from cloud.nn.attention import (
    MultiHeadAttention,
    TransformerBlock,
    attention,
    causal_mask,
    positions,
)
from cloud.nn.container import Layer, Residual, Sequential
from cloud.nn.conv import Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d, DepthwiseConv2d
from cloud.nn.graph_module import GraphModule
from cloud.nn.linear import Embedding, Linear
from cloud.nn.module import Module
from cloud.nn.norm import BatchNorm, Dropout, GroupNorm, InstanceNorm, LayerNorm
from cloud.nn.pool import AvgPool2d, Flatten, GlobalAveragePool, MaxPool2d
from cloud.nn.recurrent import GRU, LSTM
from cloud.nn.summary import summary
from cloud.tracing import Tracing, current, tracing

__all__ = [
    "ELU",
    "GELU",
    "GLU",
    "GRU",
    "LSTM",
    "SELU",
    "AvgPool2d",
    "BatchNorm",
    "Conv1d",
    "Conv2d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "DepthwiseConv2d",
    "Dropout",
    "Embedding",
    "Flatten",
    "GlobalAveragePool",
    "GraphModule",
    "GroupNorm",
    "HardSigmoid",
    "HardSwish",
    "HardTanh",
    "InstanceNorm",
    "Layer",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSoftmax",
    "MaxPool2d",
    "Mish",
    "Module",
    "MultiHeadAttention",
    "PReLU",
    "ReLU",
    "ReLU6",
    "Residual",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
    "Tracing",
    "TransformerBlock",
    "attention",
    "causal_mask",
    "current",
    "init",
    "loss",
    "positions",
    "summary",
    "tracing",
]
