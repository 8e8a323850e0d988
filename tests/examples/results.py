"""A small hand-made result of the demo: two devices, two rounds, figures that are easy to check."""

from __future__ import annotations

from typing import Any

STEPS = ("download", "train", "advertise", "share", "mask", "vector", "agree", "reveal")


def told(number: int, survivors: int) -> dict[str, Any]:
    return {"number": number, "stage": "finished", "clients": 2, "survivors": survivors}


def part(number: int, outcome: str = "done", stage: str = "reveal") -> dict[str, Any]:
    """One device's report: 100 bytes up, 1,000 down and 500 more in the first round."""
    return {
        "round": number,
        "outcome": outcome,
        "stage": stage,
        "error": "Gone: too late" if outcome == "failed" else "",
        "bytes_up": 100,
        "bytes_down": 1500 if number == 1 else 1000,
        "seconds": {step: 0.01 * (k + 1) for k, step in enumerate(STEPS)},
    }


def seed_result(seed: int = 0, federated: float = 0.8) -> dict[str, Any]:
    """Two devices: the base gets 0.5 and 0.7, federation `federated` of both."""
    stages = [("teacher", 200_000, 0.030, 0.9), ("int8 base", 20_000, 0.010, 0.8)]
    return {
        "mark": "",
        "seed": seed,
        "stages": [
            {
                "name": name,
                "parameters": size // 4,
                "size_bytes": size,
                "latency_ms": ms,
                "accuracy": accuracy,
                "seconds": 1.5,
            }
            for name, size, ms, accuracy in stages
        ],
        "outcome": {
            "names": ["p01-left-a", "p01-left-b"],
            "before": [0.5, 0.7],
            "federated": [federated, federated],
            "personalised": [0.95, 0.97],
            "local_only": [0.9, 0.94],
            "by_round": [0.6, 0.7, federated],
            "new_people": [0.65, 0.675],
            "rounds": [told(1, 2), told(2, 1)],
            "reports": [[part(1), part(2)], [part(1), part(2, "stopped", "share")]],
            "dropped": [["p01-left-b", 2, "share"]],
            "seconds": {"rounds": 5.0, "personal": 2.0},
        },
        "seconds": {"cloud": 3.0, "rounds": 5.0, "personal": 2.0},
    }


def library_result() -> dict[str, Any]:
    models = [
        ("small", 5000, 0.7, 0.004),
        ("twin", 5100, 0.7, 0.004),
        ("large", 50_000, 0.8, 0.012),
    ]
    return {
        "device": "d-1t",
        "limit_ms": 0.0072,
        "best": "small",
        "seconds": 4.0,
        "models": [
            {"name": name, "size_bytes": size, "accuracy": accuracy, "latency_ms": {"d-1t": ms}}
            for name, size, accuracy, ms in models
        ],
    }
