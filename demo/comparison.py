"""What was found on the platform after the demo's input went through it, compared with what is expected.

There is one check for each kind of output, and every difference is listed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from demo.invoices import Record
from demo.oracle import MASKED_FIELDS, Expectation, MaskedRow, Reward

SHIPMENTS = "shipments"
NOTIFICATIONS = "notifications"
MASKED = "masked records"
STORE = "store entries"
SNAPSHOT = "snapshot rows"
EXPORT = "published export"
DEAD_LETTERS = "dead letters"
REPORTING_APP = "pos"

_HEADERS = frozenset(
    f"dlq.{name}"
    for name in ("topic", "partition", "offset", "timestamp", "app", "operator", "error.class", "error.message")
)


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A record as it lies in a topic. Headers are decoded as UTF-8."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Observation:
    """Everything that came out. Records are in topic order: by partition, then by offset."""

    shipments: list[TopicRecord] = field(default_factory=list)
    notifications: list[TopicRecord] = field(default_factory=list)
    masked: list[TopicRecord] = field(default_factory=list)
    stores: dict[str, dict[str, Reward]] = field(default_factory=dict)
    """By query node: every entry of the rewards store that it serves."""
    snapshot: dict[str, Reward] = field(default_factory=dict)
    export: list[MaskedRow] = field(default_factory=list)
    """The rows of the published export."""
    dead_letters: list[TopicRecord] = field(default_factory=list)
    input_at: dict[tuple[int, int], TopicRecord] = field(default_factory=dict)
    """The records of `pos` that dead letters claim to come from, by partition and offset."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference from what is expected."""

    check: str
    subject: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.check}: {self.subject}: expected {self.expected}, found {self.found}"


def points_text(points: Decimal) -> str:
    """Points with their four decimals."""
    return f"{points:.4f}"


def compare(expected: Expectation, observed: Observation) -> list[Difference]:
    """Every difference; none if all is as expected."""
    differences = [
        *compare_shipments(expected, observed.shipments),
        *compare_notifications(expected, observed.notifications),
        *compare_masked(expected, observed.masked),
        *compare_rewards(SNAPSHOT, expected.rewards, observed.snapshot),
        *_counter_differences(EXPORT, expected.masked, Counter(observed.export)),
    ]
    if not observed.stores:
        differences.append(Difference(STORE, "query nodes", "at least one", "none"))
    for node, entries in observed.stores.items():
        differences += compare_rewards(f"{STORE} of {node}", expected.rewards, entries)
    return differences


def compare_shipments(expected: Expectation, records: Iterable[TopicRecord]) -> list[Difference]:
    """Each home delivery's invoice exactly once, with its original bytes."""
    found = Counter((record.key, record.value) for record in records)
    return _counter_differences(SHIPMENTS, expected.shipments, found)


def compare_masked(expected: Expectation, records: Iterable[TopicRecord]) -> list[Difference]:
    """Each line item exactly once, with exactly the allowed fields, under its store's key."""
    differences: list[Difference] = []
    found: Counter[tuple[Any, ...]] = Counter()
    for record in records:
        fields = _json(record.value)
        if set(fields) != set(MASKED_FIELDS):
            names = ", ".join(sorted(set(fields) ^ set(MASKED_FIELDS)))
            differences.append(
                Difference(MASKED, _place(record), "exactly the allowed fields", f"also or not: {names}")
            )
        if record.key != str(fields.get("StoreID")).encode():
            differences.append(Difference(MASKED, _place(record), "its store as the key", repr(record.key)))
        found[tuple(fields.get(name) for name in MASKED_FIELDS)] += 1
    return differences + _counter_differences(MASKED, expected.masked, found)


def compare_notifications(expected: Expectation, records: Iterable[TopicRecord]) -> list[Difference]:
    """One for each prime invoice; each customer's total grows from notification to notification by what it earned."""
    differences: list[Difference] = []
    totals: dict[str, Decimal] = {}
    seen: set[str] = set()
    for record in records:
        fields = _json(record.value)
        number = str(fields.get("InvoiceNumber"))
        if number in seen:
            differences.append(Difference(NOTIFICATIONS, number, "one", "another one"))
            continue
        seen.add(number)
        differences += _notification_differences(expected, totals, record, fields)
    missing = expected.earnings.keys() - seen
    differences += [Difference(NOTIFICATIONS, number, "one", "none") for number in sorted(missing)]
    return differences


def _notification_differences(
    expected: Expectation, totals: dict[str, Decimal], record: TopicRecord, fields: dict[str, Any]
) -> list[Difference]:
    number = str(fields.get("InvoiceNumber"))
    earning = expected.earnings.get(number)
    if earning is None:
        return [Difference(NOTIFICATIONS, number, "none", "one")]
    total = totals.get(earning.card, Decimal(0)) + earning.points
    wanted = {
        "InvoiceNumber": number,
        "CustomerCardNo": earning.card,
        "TotalAmount": earning.amount,
        "EarnedLoyaltyPoints": earning.points,
        "TotalLoyaltyPoints": total,
    }
    # Continue from the total found, so that one wrong total is one difference and not one for each that follows.
    found_total = fields.get("TotalLoyaltyPoints")
    totals[earning.card] = found_total if isinstance(found_total, Decimal) else total
    differences = [
        Difference(NOTIFICATIONS, f"{number} {name}", str(wanted.get(name)), str(fields.get(name)))
        for name in sorted(wanted.keys() | fields.keys())
        if wanted.get(name) != fields.get(name)
    ]
    if record.key != earning.card.encode():
        differences.append(Difference(NOTIFICATIONS, number, "the card as the key", repr(record.key)))
    return differences


def compare_rewards(check: str, expected: Mapping[str, Reward], found: Mapping[str, Reward]) -> list[Difference]:
    """Each prime customer's total, number of invoices and time of the last one, and no other customer."""
    return [
        Difference(check, card, _reward_text(expected.get(card)), _reward_text(found.get(card)))
        for card in sorted(expected.keys() | found.keys())
        if expected.get(card) != found.get(card)
    ]


def _counter_differences(check: str, expected: Counter[Any], found: Counter[Any]) -> list[Difference]:
    return [
        Difference(check, _short(subject), f"{expected[subject]} times", f"{found[subject]} times")
        for subject in expected.keys() | found.keys()
        if expected[subject] != found[subject]
    ]


def _json(value: bytes | None) -> dict[str, Any]:
    try:
        fields = json.loads(value or b"null", parse_float=Decimal)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _reward_text(reward: Reward | None) -> str:
    if reward is None:
        return "none"
    return f"{points_text(reward.points)} points, {reward.invoices} invoices, last at {reward.last_time_ms}"


def _place(record: TopicRecord) -> str:
    return f"partition {record.partition} offset {record.offset}"


def _short(subject: object) -> str:
    match subject:
        case (bytes(), bytes() as value):
            text = value[:60].decode("utf-8", "replace")
        case _:
            text = str(subject)
    return text if len(text) <= 160 else text[:157] + "..."


def compare_dead_letters(poison: Iterable[Record], observed: Observation) -> list[Difference]:
    """Every difference of the dead letters from the published poison: all of it, unharmed, and nothing else."""
    letters = observed.dead_letters
    differences = [difference for letter in letters for difference in _header_differences(letter, observed)]
    expected = Counter((record.key or b"", record.value) for record in poison)
    found = Counter((letter.key or b"", letter.value) for letter in letters)
    differences += _counter_differences(DEAD_LETTERS, expected, found)
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
