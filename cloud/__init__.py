"""Train, differentiate, compress and search models; everything ends as one graph."""

from cloud import ops
from cloud.differentiate import grad, grad_source, jvp, stop_gradient, value_and_grad, vjp

__all__ = ["grad", "grad_source", "jvp", "ops", "stop_gradient", "value_and_grad", "vjp"]
