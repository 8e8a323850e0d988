"""Training: graphs of steps, optimisers, schedules, data, the loop and checkpoints."""

from cloud.train import checkpoint, metrics, optim, schedule
from cloud.train.adaptive import LAMB, Adagrad, RMSprop, Shampoo
from cloud.train.callbacks import EarlyStopping
from cloud.train.data import (
    ArrayDataset,
    add_noise,
    batch_count,
    batches,
    flip_horizontal,
    random_shift,
)
from cloud.train.engine import Engine, InterpreterEngine, LiteEngine
from cloud.train.graphs import inference_graph, loss_graph, train_graph, training_model
from cloud.train.loop import History, evaluate, fit
from cloud.train.optim import SGD, Adam, AdamW, Momentum, Optimizer
from cloud.train.trainer import Trainer, predict

__all__ = [
    "LAMB",
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "ArrayDataset",
    "EarlyStopping",
    "Engine",
    "History",
    "InterpreterEngine",
    "LiteEngine",
    "Momentum",
    "Optimizer",
    "RMSprop",
    "Shampoo",
    "Trainer",
    "add_noise",
    "batch_count",
    "batches",
    "checkpoint",
    "evaluate",
    "fit",
    "flip_horizontal",
    "inference_graph",
    "loss_graph",
    "metrics",
    "optim",
    "predict",
    "random_shift",
    "schedule",
    "train_graph",
    "training_model",
]
