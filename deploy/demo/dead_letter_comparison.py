"""Compares the dead letters with the poison that was published: all of it, unharmed, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from deploy.demo.observation import Difference, Observation, TopicRecord
from deploy.demo.poison import PoisonRecord

DEAD_LETTERS = "dead letters"
REPORTING_APP = "pos"

_HEADERS = frozenset(
    f"dlq.{name}" for name in ("topic", "partition", "offset", "timestamp", "app", "error.class", "error.message")
)


def compare_dead_letters(poison: Iterable[PoisonRecord], observed: Observation) -> list[Difference]:
    """Every difference."""
    letters = observed.dead_letters
    differences = [difference for letter in letters for difference in _header_differences(letter, observed)]
    expected = Counter((record.key or b"", record.value) for record in poison)
    found = Counter((letter.key or b"", letter.value) for letter in letters)
    differences += [
        Difference(DEAD_LETTERS, repr(subject)[:120], f"{expected[subject]} times", f"{found[subject]} times")
        for subject in expected.keys() | found.keys()
        if expected[subject] != found[subject]
    ]
    return differences


def _header_differences(letter: TopicRecord, observed: Observation) -> list[Difference]:
    names = {name for name in letter.headers if name.startswith("dlq.")}
    if names != _HEADERS:
        return [Difference(DEAD_LETTERS, _place(letter), f"headers {sorted(_HEADERS)}", str(sorted(names)))]
    differences = []
    if letter.headers["dlq.topic"] != "pos" or letter.headers["dlq.app"] != REPORTING_APP:
        origin = f"{letter.headers['dlq.topic']} by {letter.headers['dlq.app']}"
        differences.append(Difference(DEAD_LETTERS, _place(letter), f"pos by {REPORTING_APP}", origin))
    source = observed.input_at.get((int(letter.headers["dlq.partition"]), int(letter.headers["dlq.offset"])))
    if source is None or (source.key, source.value) != (letter.key, letter.value):
        differences.append(Difference(DEAD_LETTERS, _place(letter), "the bytes at the place that it names", "others"))
    return differences


def _place(record: TopicRecord) -> str:
    return f"partition {record.partition} offset {record.offset}"
