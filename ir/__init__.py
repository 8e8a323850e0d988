"""The graph IR, the operator table and the model file: what cloud, converter and runtime share."""

import ir.ops  # noqa: F401  (declares the operators)
from ir.dtype import DType
from ir.graph import Constant, Graph, Model, Node, Value, Weight
from ir.op import OPS, Op

__all__ = ["OPS", "Constant", "DType", "Graph", "Model", "Node", "Op", "Value", "Weight"]
