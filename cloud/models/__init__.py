"""Small well-known nets for small devices, as functions that make modules."""

from cloud.models.classic import lenet, mlp
from cloud.models.dscnn import dscnn
from cloud.models.mobilenet import mobilenet_v2
from cloud.models.resnet import resnet8

__all__ = ["dscnn", "lenet", "mlp", "mobilenet_v2", "resnet8"]
