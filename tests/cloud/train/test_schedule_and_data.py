"""Learning rates by step; batches by seed; augmentation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cloud import nn
from cloud.train import (
    SGD,
    ArrayDataset,
    Trainer,
    add_noise,
    batches,
    evaluate,
    fit,
    flip_horizontal,
    predict,
    random_shift,
    schedule,
)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_constant_and_stepwise_rates() -> None:
    assert [schedule.constant(0.3)(s) for s in (0, 99)] == [0.3, 0.3]
    rate = schedule.stepwise(1.0, every=10, factor=0.5)
    assert [rate(s) for s in (0, 9, 10, 25)] == [1, 1, 0.5, 0.25]


def test_cosine_warms_up_in_a_line_and_ends_at_its_last_rate() -> None:
    rate = schedule.cosine(1.0, steps=100, warmup=10, final=0.2)
    assert [rate(s) for s in (0, 4, 9)] == pytest.approx([0.1, 0.5, 1.0])
    assert [rate(s) for s in (10, 55, 100, 500)] == pytest.approx([1.0, 0.6, 0.2, 0.2])
    assert all(rate(s) > rate(s + 1) for s in range(10, 99))


def test_a_warmup_as_long_as_training_is_refused() -> None:
    with pytest.raises(ValueError, match="warmup of 10 in 10 steps"):
        schedule.cosine(1.0, steps=10, warmup=10)


def data(n: int = 10) -> ArrayDataset:
    return ArrayDataset(x=np.arange(n * 2.0).reshape(n, 2), y=np.arange(n))


def test_columns_take_the_types_of_models() -> None:
    columns = data().columns
    assert (columns["x"].dtype, columns["y"].dtype) == (np.float32, np.int32)
    kept = ArrayDataset(image=np.zeros((2, 3), np.uint8), flag=np.zeros(2, bool)).columns
    assert (kept["image"].dtype, kept["flag"].dtype) == (np.uint8, bool)


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"columns of length \{'x': 2, 'y': 3\}"):
        ArrayDataset(x=np.zeros(2), y=np.zeros(3))


def test_training_on_no_examples_is_refused() -> None:
    net = nn.Linear(2, 2, rng=rng())
    some, none = data(), data()[:0]
    for examples, validation, name in ((none, some, "data"), (some, none, "validation")):
        with pytest.raises(ValueError, match=f"{name} has 0 examples, want at least 1"):
            fit(net, examples, optimizer=SGD(0.1), epochs=1, validation=validation)


@pytest.mark.parametrize("examples", [{"x": np.zeros((2, 2))}, (np.zeros((2, 2)), np.zeros(2))])
def test_what_gives_no_batches_is_named_before_anything_is_trained(examples: Any) -> None:
    net = nn.Linear(2, 2, rng=rng())
    for run in (
        lambda: fit(net, examples, optimizer=SGD(0.1), epochs=1),
        lambda: fit(net, data(), optimizer=SGD(0.1), epochs=1, validation=examples),
        lambda: evaluate(net, examples),
        lambda: predict(net, examples),
        lambda: Trainer(net, examples, optimizer=SGD(0.1)),
        lambda: Trainer(net, data(), optimizer=SGD(0.1)).evaluate(examples),
    ):
        with pytest.raises(TypeError, match=f"is {type(examples).__name__}; want an ArrayDataset"):
            run()


def test_batches_without_rng_are_in_order_and_end_with_a_short_one() -> None:
    found = [b["y"].tolist() for b in batches(data(), 4)]
    assert found == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [len(b["y"]) for b in batches(data(), 4, drop_last=True)] == [4, 4]


def test_an_rng_shuffles_and_its_seed_repeats_the_order() -> None:
    a, b = (np.concatenate([x["y"] for x in batches(data(100), 7, rng=rng())]) for _ in range(2))
    np.testing.assert_array_equal(a, b)
    assert sorted(a) == list(range(100))
    assert list(a) != list(range(100))


def test_rows_stay_together() -> None:
    for b in batches(data(), 3, rng=rng()):
        np.testing.assert_array_equal(b["x"][:, 0], b["y"] * 2)


def test_a_split_loses_no_row_and_shares_none() -> None:
    a, b = data().split(0.3, rng())
    assert (len(a), len(b)) == (7, 3)
    assert sorted([*a.columns["y"], *b.columns["y"]]) == list(range(10))


def test_a_column_can_be_added() -> None:
    more = data().with_columns(teacher=np.zeros((10, 3)))
    assert list(more.columns) == ["x", "y", "teacher"]


def test_a_batch_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="batch size 0"):
        next(batches(data(), 0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "fit: batch size 0: want a whole number, at least 1"),
        ({"batch_size": 2.5}, "fit: batch size 2.5: want a whole number"),
        ({"batch_size": None}, "fit: batch size None: want a whole number"),
        ({"epochs": -1}, "fit: epochs -1: want a whole number, at least 0"),
        ({"epochs": "3"}, "fit: epochs '3': want a whole number"),
    ],
)
def test_fit_names_a_number_that_is_none(options: dict[str, Any], message: str) -> None:
    module = nn.Linear(4, 3, rng=rng())
    with pytest.raises(ValueError, match=message):
        fit(module, data(), optimizer=SGD(0.1), **{"epochs": 1, **options})


def test_augmentation_without_rng_is_refused() -> None:
    with pytest.raises(ValueError, match="want an rng"):
        next(batches(data(), 2, augment=[add_noise("x", 1.0)]))


def image_data() -> ArrayDataset:
    image = np.zeros((50, 4, 5, 1))
    image[:, 1, 1] = 1
    return ArrayDataset(image=image, label=np.arange(50))


def test_a_flip_mirrors_about_half_of_the_images() -> None:
    (b,) = batches(image_data(), 50, rng=rng(), augment=[flip_horizontal("image")])
    left, right = b["image"][:, 1, 1, 0].sum(), b["image"][:, 1, 3, 0].sum()
    assert left + right == 50
    assert 15 < right < 35


def test_a_shift_moves_images_by_at_most_so_many_pixels() -> None:
    (b,) = batches(image_data(), 50, rng=rng(), augment=[random_shift("image", 1)])
    assert b["image"].shape == (50, 4, 5, 1)
    np.testing.assert_array_equal(b["image"][:, :3, :3].sum((1, 2, 3)), 1)
    assert len({tuple(np.argwhere(x)[0]) for x in b["image"]}) == 9


def test_noise_has_its_deviation_and_labels_stay() -> None:
    d = ArrayDataset(x=np.zeros((2000, 3)), y=np.arange(2000))
    (b,) = batches(d, 2000, rng=rng(), augment=[add_noise("x", 0.5)])
    assert b["x"].dtype == np.float32
    assert b["x"].std() == pytest.approx(0.5, rel=0.05)
    assert sorted(b["y"]) == list(range(2000))
