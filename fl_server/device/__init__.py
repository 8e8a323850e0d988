"""The device side: enrols, joins rounds, trains, and takes part in secure aggregation."""

from fl_server.device.device import Device, Report
from fl_server.device.trainer import LiteTrainer, Trainer
from fl_server.device.weights import initial_weights
from fl_server.secagg.encode import Update
from fl_server.secagg.policy import Policy

__all__ = ["Device", "LiteTrainer", "Policy", "Report", "Trainer", "Update", "initial_weights"]
