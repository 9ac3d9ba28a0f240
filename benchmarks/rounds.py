"""Rounds of a benchmark: in each, every side is measured once, and the sides take turns in who begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping


def run_rounds(sides: Mapping[str, Callable[[], float]], rounds: int, unit: str) -> dict[str, list[float]]:
    """Measures each side as often as there are rounds, and prints each figure.

    Args:
        sides: what measures a side, by its name.
        rounds: how many.
        unit: of the figures.

    Returns:
        The figures of each side, in the order of the rounds.
    """
    figures: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(rounds):
        first = number % len(sides)
        for side in [*sides][first:] + [*sides][:first]:
            figures[side].append(sides[side]())
            print(f"round {number}: {side}: {figures[side][-1]:,.0f} {unit}", flush=True)
    return figures
