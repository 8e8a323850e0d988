"""Sessions of lite.js in Node, driven from Python: jobs in, results out."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.helpers import ROOT
from tests.native import wasm_build

HERE = Path(__file__).parent
LITE_JS = ROOT / "lite_runtime/web/lite.js"


@dataclass
class Job:
    """A model's bytes, options of `Session.load`, and steps on the session (driver.mjs)."""

    model: bytes
    steps: list[dict[str, Any]] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)


class JobError(Exception):
    """What a step threw: the message of a LiteError; `status` is its name for the reason."""

    def __init__(self, message: str, status: str) -> None:
        super().__init__(message)
        self.status = status


def in_node(*jobs: Job) -> list[list[Any]]:
    """For each job what its steps gave, the first being that of `load`: a value, or a JobError."""
    told = [
        {
            "model": base64.b64encode(job.model).decode(),
            "options": job.options,
            "steps": [_told(step) for step in job.steps],
        }
        for job in jobs
    ]
    module = wasm_build("lite_wasm") / "bin/lite.wasm"
    done = subprocess.run(
        ["node", str(HERE / "driver.mjs"), str(LITE_JS), str(module)],
        input=json.dumps(told),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [[_found(result) for result in results] for results in json.loads(done.stdout)]


def run(inputs: Mapping[str, Any], entry: str | None = None, times: int = 1) -> dict[str, Any]:
    """The step that runs an entry on arrays."""
    step: dict[str, Any] = {"do": "run", "inputs": dict(inputs), "times": times}
    return step if entry is None else step | {"entry": entry}


def array(result: Mapping[str, Any], dtype: Any = np.float32) -> np.ndarray:
    """A Tensor that a step gave."""
    data = np.frombuffer(base64.b64decode(result["data"]), dtype)
    return data.reshape(result["shape"])


def _told(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _told(item) for key, item in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"dtype": value.dtype.name, "shape": list(value.shape), "data": data}
    return value


def _found(result: Mapping[str, Any]) -> Any:
    assert "broke" not in result, result["broke"]
    if "error" in result:
        return JobError(result["error"], result["status"])
    return result["gave"]
