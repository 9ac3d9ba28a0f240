"""Comparing what the stores hold with what they must hold."""

from __future__ import annotations

from dataclasses import fields

from deploy.demo.systems.oracle import Expected

_SHOWN = 3


def compare_systems(expected: Expected, found: Expected) -> list[str]:
    """One sentence for each store that differs; empty if none does."""
    sentences = []
    for field in fields(Expected):
        must, is_ = getattr(expected, field.name), getattr(found, field.name)
        wrong = [key for key in {**must, **is_} if must.get(key) != is_.get(key)]
        if wrong:
            shown = "; ".join(f"{key}: {is_.get(key)} instead of {must.get(key)}" for key in wrong[:_SHOWN])
            sentences.append(f"{field.name}: {len(wrong)} of {len(must)} rows differ ({shown})")
    return sentences
