"""Smaller models that still answer right: pruning, distillation, quantization."""

from cloud.compress.distill import distill
from cloud.compress.prune import Pruned, prune
from cloud.compress.quantize import quantize

__all__ = ["Pruned", "distill", "prune", "quantize"]
