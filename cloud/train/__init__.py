"""Training: graphs of steps, optimisers, schedules, data, the loop and checkpoints."""

from cloud.train import checkpoint, optim, schedule
from cloud.train.data import ArrayDataset, add_noise, batches, flip_horizontal, random_shift
from cloud.train.engine import Engine, InterpreterEngine, LiteEngine
from cloud.train.graphs import inference_graph, loss_graph, train_graph, training_model
from cloud.train.loop import History, evaluate, fit
from cloud.train.optim import SGD, Adam, AdamW, Momentum, Optimizer
from cloud.train.trainer import Trainer

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "ArrayDataset",
    "Engine",
    "History",
    "InterpreterEngine",
    "LiteEngine",
    "Momentum",
    "Optimizer",
    "Trainer",
    "add_noise",
    "batches",
    "checkpoint",
    "evaluate",
    "fit",
    "flip_horizontal",
    "inference_graph",
    "loss_graph",
    "optim",
    "random_shift",
    "schedule",
    "train_graph",
    "training_model",
]
