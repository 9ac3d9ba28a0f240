from __future__ import annotations

from storekeeper.stores.windowed import Windowed
from storekeeper.topology.operators.windowed_aggregation import ClosingIndex


def test_windows_come_in_the_order_of_closing_then_start_then_key() -> None:
    index: ClosingIndex[str] = ClosingIndex()
    for time_ms, window in [(9, ("b", 2, 9)), (9, ("a", 2, 9)), (9, ("z", 1, 9)), (5, ("q", 5, 5)), (10, ("a", 0, 10))]:
        index.add(time_ms, Windowed(*window))
    assert index.take_until(4) == []
    assert index.take_until(9) == [("q", 5, 5), ("z", 1, 9), ("a", 2, 9), ("b", 2, 9)]
    assert len(index) == 1


def test_a_window_is_known_once_and_can_be_forgotten() -> None:
    index: ClosingIndex[str] = ClosingIndex()
    window = Windowed("a", 0, 9)
    index.add(9, window)
    index.add(9, window)
    assert len(index) == 1
    index.discard(9, window)
    index.discard(9, window)
    index.discard(8, window)
    assert len(index) == 0
    assert index.take_until(100) == []


def test_keys_without_an_order_come_as_they_arrived() -> None:
    index: ClosingIndex[object] = ClosingIndex()
    index.add(9, Windowed("text", 0, 9))
    index.add(9, Windowed(7, 0, 9))
    assert [window.key for window in index.take_until(9)] == ["text", 7]
