"""Layers and losses. A module is a function of values with weights; see docs/training.md."""

from cloud.nn import init, loss
from cloud.nn.activation import GELU, HardSwish, ReLU, ReLU6, Sigmoid, SiLU, Tanh
from cloud.nn.container import Layer, Residual, Sequential
from cloud.nn.graph_module import GraphModule
from cloud.nn.linear import Conv2d, DepthwiseConv2d, Linear
from cloud.nn.module import Module
from cloud.nn.norm import BatchNorm, Dropout, LayerNorm
from cloud.nn.pool import AvgPool2d, Flatten, GlobalAveragePool, MaxPool2d
from cloud.nn.summary import summary
from cloud.nn.tracing import Tracing, current, tracing

__all__ = [
    "GELU",
    "AvgPool2d",
    "BatchNorm",
    "Conv2d",
    "DepthwiseConv2d",
    "Dropout",
    "Flatten",
    "GlobalAveragePool",
    "GraphModule",
    "HardSwish",
    "Layer",
    "LayerNorm",
    "Linear",
    "MaxPool2d",
    "Module",
    "ReLU",
    "ReLU6",
    "Residual",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Tanh",
    "Tracing",
    "current",
    "init",
    "loss",
    "summary",
    "tracing",
]
