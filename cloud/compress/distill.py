"""Distillation: a small student learns from the soft answers of a trained teacher."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cloud import nn
from cloud.train.data import ArrayDataset, Augment, Batch
from cloud.train.engine import engine_for
from cloud.train.graphs import inference_graph
from cloud.train.loop import History, fit
from cloud.train.trainer import ACCURACY, column_specs
from ir.graph import Model

LOGITS = "teacher_logits"


def distill(
    student: nn.Module,
    teacher: nn.Module,
    data: ArrayDataset,
    *,
    temperature: float = 4.0,
    alpha: float = 0.5,
    augment: Sequence[Augment] = (),
    engine: str = "lite",
    **options: Any,
) -> History:
    """Train `student` on (input, label) columns and on the teacher's logits for the same batch.

    The teacher sees each batch as the student does, after augmentation (Hinton et al. 2015; Beyer
    et al. 2022). Options are those of `fit`. Returns the history of the student's training.
    """
    xs, _ = column_specs(data)
    (name,) = xs
    teacher.name_weights()
    runner = engine_for(Model({"infer": inference_graph(teacher, xs)}), engine)

    def ask_teacher(batch: Batch, _: np.random.Generator) -> Batch:
        return {**batch, LOGITS: runner.run("infer", {name: batch[name]})["logits"]}

    classes = runner.run("infer", {name: data.columns[name][:1]})["logits"].shape[1]
    with_logits = data.with_columns(**{LOGITS: np.zeros((len(data), classes), np.float32)})
    return fit(
        student,
        with_logits,
        loss=nn.loss.distillation(temperature=temperature, alpha=alpha),
        metrics=ACCURACY,
        augment=[*augment, ask_teacher],
        engine=engine,
        **options,
    )
