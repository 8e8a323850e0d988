"""Latency: what is measured, and what disturbances do to it. No test depends on real time."""

from __future__ import annotations

import math

import pytest

import lite_runtime as lite
from cloud.nas import device_id, measure_latency_ms
from cloud.nas.cost import median_s
from tests.cloud.nas.models import file_of


class Busy:
    """A clock and a call that takes `call_s` on it, except where `slow` says otherwise."""

    def __init__(self, call_s: float, slow: dict[range, float] | None = None) -> None:
        self.now, self.calls, self.call_s, self.slow = 0.0, 0, call_s, slow or {}

    def call(self) -> None:
        self.now += next((s for r, s in self.slow.items() if self.calls in r), self.call_s)
        self.calls += 1

    def measured(self) -> float:
        return median_s(self.call, lambda: self.now)


def test_the_runtime_measures_a_real_model_from_bytes_and_from_a_file(tmp_path) -> None:
    path = tmp_path / "m.ms"
    path.write_bytes(file_of())
    for model in (path, str(path), path.read_bytes()):
        ms = measure_latency_ms(model)
        assert ms > 0
        assert math.isfinite(ms)


def test_what_is_no_model_is_an_error_of_the_runtime() -> None:
    with pytest.raises(lite.LiteError):
        measure_latency_ms(b"no model")


def test_slow_first_calls_and_a_few_disturbed_batches_do_not_count() -> None:
    calm = Busy(1e-5)
    assert calm.measured() == pytest.approx(1e-5)
    # The first call loads caches; later something else has the processor for 2,000 calls.
    disturbed = Busy(1e-5, {range(1): 0.5, range(500, 2500): 1e-3})
    assert disturbed.measured() == pytest.approx(1e-5)


def test_short_calls_are_timed_in_batches_and_long_ones_few_times() -> None:
    short, long = Busy(1e-6), Busy(2.0)
    assert short.measured() == pytest.approx(1e-6)
    assert short.calls > 10_000
    assert long.measured() == pytest.approx(2.0)
    assert long.calls < 10


def test_a_call_that_no_clock_can_see_ends_too() -> None:
    assert Busy(0.0).measured() == 0.0


def test_a_device_is_named_by_its_processor_and_threads() -> None:
    one, two = device_id(1), device_id(2)
    assert one.endswith("-1t")
    assert two.endswith("-2t")
    assert one[:-2] == two[:-2]
    assert all(c.isalnum() or c in "_-" for c in one)
