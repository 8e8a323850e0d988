"""Pipelines: what the stages give, that an item depends on (seed, epoch, index) alone, resuming."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloud import data
from cloud.data import DataError, Pipeline

X = np.arange(23.0)


def noisy(item: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {**item, "x": item["x"] + rng.normal()}


def augmented() -> Pipeline:
    """With every kind of random stage, and a short last batch."""
    rows = data.arrays(x=X, label=np.arange(23) % 3)
    return rows.map(noisy, random=True).shuffle().map(noisy, random=True).repeat(2).batch(4)


def stream() -> Pipeline:
    items = data.generator(lambda: ({"x": x} for x in X))
    return items.map(noisy, random=True).shuffle(5).repeat(2).batch(4)


def values(items: Any) -> list[bytes]:
    return [item["x"].tobytes() for item in items]


def test_rows_are_dicts_in_order_and_batches_are_stacked() -> None:
    rows = data.arrays(x=X, label=np.arange(23))
    assert rows[3] == {"x": 3.0, "label": 3}
    assert [len(b["x"]) for b in rows.batch(10)] == [10, 10, 3]
    assert [len(b["x"]) for b in rows.batch(10, drop_last=True)] == [10, 10]
    assert (len(rows.batch(10)), len(rows.batch(10, drop_last=True))) == (3, 2)
    np.testing.assert_array_equal(rows.batch(10)[1]["label"], np.arange(10, 20))


def test_a_shuffle_is_a_permutation_and_another_one_each_epoch_and_seed() -> None:
    rows = data.sequence(range(23)).shuffle()
    orders = [list(rows.epoch(e, seed=s)) for e, s in ((0, 0), (0, 0), (1, 0), (0, 1))]
    assert orders[0] == orders[1]
    assert all(sorted(order) == list(range(23)) for order in orders)
    assert len({tuple(order) for order in orders}) == 3


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("make", [augmented, stream])
def test_items_are_the_same_bits_whatever_the_number_of_processes(make: Any, workers: int) -> None:
    alone = values(make().epoch(1, seed=5))
    assert values(make().prefetch(workers).epoch(1, seed=5)) == alone
    assert values(make().epoch(2, seed=5)) != alone


@pytest.mark.parametrize("start", [0, 1, 5, 11, 12, 99])
@pytest.mark.parametrize("make", [augmented, stream])
@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_goes_on_where_it_was_left(make: Any, start: int, workers: int) -> None:
    whole = values(make().epoch(1, seed=5))
    assert values(make().prefetch(workers).epoch(1, seed=5, start=start)) == whole[start:]


def test_an_item_does_not_depend_on_those_before_it() -> None:
    batches = augmented()
    assert values([batches[7]]) == values(batches.epoch(0))[7:8]


def test_two_random_stages_draw_different_numbers() -> None:
    twice = data.arrays(x=np.zeros(4)).map(noisy, random=True)
    once = [i["x"] for i in twice]
    both = [i["x"] for i in twice.map(noisy, random=True)]
    assert not np.isclose(np.array(both), 2 * np.array(once)).any()


def test_repeats_are_epochs_of_their_own() -> None:
    items = list(data.sequence(range(8)).shuffle().repeat(2))
    assert sorted(items[:8]) == sorted(items[8:]) == list(range(8))
    assert items[:8] != items[8:]
    later = list(data.sequence(range(8)).shuffle().repeat(2).epoch(1))
    assert later[:8] not in (items[:8], items[8:])


def test_parts_of_a_pipeline() -> None:
    for items in (data.sequence(range(10)), data.generator(lambda: range(10))):
        assert list(items.take(3)) == [0, 1, 2]
        assert list(items.skip(7)) == [7, 8, 9]
        assert list(items.take(99)) == list(range(10))
        assert list(items.skip(2).take(3)) == [2, 3, 4]
        shards = [list(items.shard(i, 3)) for i in range(3)]
        assert shards == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]
    assert len(data.sequence(range(10)).shard(1, 3)) == 3


def test_a_stream_is_shuffled_within_its_window() -> None:
    items = list(data.generator(lambda: range(100)).shuffle(10))
    assert sorted(items) == list(range(100))
    assert items != list(range(100))
    assert all(item < place + 10 for place, item in enumerate(items))


def test_a_stream_may_be_limited_and_has_no_length() -> None:
    def forever() -> Any:
        while True:
            yield 1

    assert list(data.generator(forever, limit=3)) == [1, 1, 1]
    assert list(data.generator(forever).take(2)) == [1, 1]
    with pytest.raises(TypeError, match="a stream has no length"):
        len(data.generator(forever))


def test_files_are_sorted_paths(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "c.png"):
        (tmp_path / name).write_text(name)
    texts = data.files(tmp_path / "*.txt").map(lambda p: {"text": p.read_text()})
    assert [i["text"] for i in texts] == ["a.txt", "b.txt"]
    assert texts.batch(2)[0] == {"text": ["a.txt", "b.txt"]}
    with pytest.raises(FileNotFoundError, match="no such files"):
        data.files(tmp_path / "*.wav")


def test_tuples_and_numbers_are_collated() -> None:
    (batch,) = data.sequence([(1, np.zeros(2)), (2, np.ones(2))]).batch(2)
    np.testing.assert_array_equal(batch[0], [1, 2])
    np.testing.assert_array_equal(batch[1], [[0, 0], [1, 1]])


def fails_at_7(item: int) -> int:
    if item == 7:
        raise ValueError("seven is bad")
    return item


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_an_error_comes_with_its_items_index_in_its_turn(workers: int) -> None:
    items = data.sequence(range(10)).map(fails_at_7).prefetch(workers).epoch(0)
    assert [next(items) for _ in range(7)] == list(range(7))
    with pytest.raises(DataError) as caught:
        next(items)
    assert str(caught.value) == "item 7: fails_at_7: ValueError: seven is bad"
    assert caught.value.index == 7
    if workers:
        assert any("in fails_at_7" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_in_a_stream_comes_with_its_items_index(workers: int) -> None:
    def broken() -> Any:
        yield from (0, 1)
        raise OSError("disk is gone")

    items = data.generator(broken).prefetch(workers).epoch(0)
    assert [next(items), next(items)] == [0, 1]
    with pytest.raises(DataError) as caught:
        next(items)
    assert str(caught.value) == "item 2: generator: OSError: disk is gone"


def test_the_error_of_an_item_in_a_shuffled_batch_names_the_item() -> None:
    batches = data.sequence(range(10)).map(fails_at_7).shuffle().batch(5)
    with pytest.raises(DataError, match=r"^item 7: fails_at_7"):
        list(batches)


def test_a_process_that_dies_is_an_error() -> None:
    def dies(item: int) -> int:
        os._exit(3)

    with pytest.raises(DataError, match="item 0: its process ended with code 3"):
        list(data.sequence(range(4)).map(dies).prefetch(2))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: data.arrays(x=np.zeros(2), y=np.zeros(3)), "want at least one, and one length"),
        (lambda: data.sequence([1]).batch(0), "batch size 0: want at least 1"),
        (lambda: data.sequence([1]).repeat(0), "want at least 1"),
        (lambda: data.sequence([1]).shard(3, 3), "shard 3 of 3: want 0 to 2"),
        (lambda: data.sequence([1])[1], "item 1: want 0 to 0"),
        (lambda: data.sequence([1]).prefetch(-1), "-1 workers"),
        (lambda: list(data.sequence([np.zeros(2), np.zeros(3)]).batch(2)), "want one shape"),
        (lambda: list(data.sequence([{"a": 1}, {"b": 1}]).batch(2)), "want the same"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, why: str) -> None:
    with pytest.raises((ValueError, IndexError), match=why):
        make()
