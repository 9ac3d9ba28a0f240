from __future__ import annotations

from functools import partial

from benchmarks.rounds import run_rounds


def test_each_side_is_measured_once_a_round_and_begins_in_turn() -> None:
    order: list[str] = []

    def measured(side: str) -> float:
        order.append(side)
        return float(len(order))

    sides = {side: partial(measured, side) for side in ("peer", "ours")}
    figures = run_rounds(sides, 3, "records/s")
    assert order == ["peer", "ours", "ours", "peer", "peer", "ours"]
    assert figures == {"peer": [1.0, 4.0, 5.0], "ours": [2.0, 3.0, 6.0]}
