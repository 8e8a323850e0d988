"""Fixtures of the converter's tests: exported models, each made once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ir.graph import Array
from tests.converter.torch_models import CASES, export

Exported = Callable[..., Path]


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """`exported("lenet", dynamo=True, opset=18, free_batch=False)`: the ONNX file."""

    @cache
    def get(name: str, **options: object) -> Path:
        folder = tmp_path_factory.mktemp(name)
        case = CASES[name]
        return export(case.module(), folder / f"{name}.onnx", case.shape, **options)  # type: ignore[arg-type]

    return get


def samples(name: str, count: int = 32, seed: int = 0) -> dict[str, Array]:
    """Inputs for a model of CASES."""
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((count, *CASES[name].shape)).astype(np.float32)}
