"""The comparison must go red on every kind of difference, and stay green where all is right."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from demo.comparison import (
    EXPORT,
    MASKED,
    NOTIFICATIONS,
    SHIPMENTS,
    SNAPSHOT,
    STORE,
    Observation,
    TopicRecord,
    compare,
)
from demo.invoices import Record, invoice_records, load_purchases
from demo.oracle import MASKED_FIELDS, Expectation, Reward, expect

RECORDS = invoice_records(load_purchases(400))


@pytest.fixture
def expected() -> Expectation:
    return expect(RECORDS)


@pytest.fixture
def observed() -> Observation:
    return a_right_observation(RECORDS)


def a_right_observation(records: list[Record]) -> Observation:
    """What a platform without faults shows, made in the most direct way."""
    right = Observation()
    totals: dict[str, Decimal] = defaultdict(Decimal)
    rewards: dict[str, Reward] = {}
    for record in records:
        fields = json.loads(record.value or b"", parse_float=Decimal)
        if fields["DeliveryType"].upper() == "HOME-DELIVERY":
            right.shipments.append(_record(len(right.shipments), record.key, record.value))
        for item in fields["InvoiceLineItems"]:
            row = {name: _field(name, fields, item) for name in MASKED_FIELDS}
            right.masked.append(_record(len(right.masked), record.key, _json(row)))
            right.export.append(tuple(row.values()))
        if fields["CustomerType"].upper() == "PRIME":
            card = fields["CustomerCardNo"]
            earned = Decimal(str(fields["TotalAmount"])) * 2 / 100
            totals[card] += earned
            notification = {
                "InvoiceNumber": fields["InvoiceNumber"],
                "CustomerCardNo": card,
                "TotalAmount": fields["TotalAmount"],
                "EarnedLoyaltyPoints": earned,
                "TotalLoyaltyPoints": totals[card],
            }
            right.notifications.append(_record(len(right.notifications), card.encode(), _json(notification)))
            count = rewards[card].invoices + 1 if card in rewards else 1
            rewards[card] = Reward(totals[card], count, fields["CreatedTime"])
    right.stores = {"a": dict(rewards), "b": dict(rewards)}
    right.snapshot = dict(rewards)
    return right


def _field(name: str, invoice: dict[str, Any], item: dict[str, Any]) -> Any:
    if name in item:
        return item[name]
    return invoice[name] if name in invoice else invoice.get("DeliveryAddress", {}).get(name)


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, default=float).encode()


def _record(offset: int, key: bytes | None, value: bytes | None) -> TopicRecord:
    return TopicRecord(0, offset, key, value)


def _changed(record: TopicRecord, **changes: Any) -> TopicRecord:
    fields = json.loads(record.value or b"", parse_float=Decimal)
    return replace(record, value=_json(fields | changes))


def test_a_right_platform_has_no_differences(expected: Expectation, observed: Observation) -> None:
    assert compare(expected, observed) == []
    assert len(expected.shipments) > 100
    assert len(expected.rewards) > 30
    assert len(observed.notifications) > 100


def _lose_a_shipment(o: Observation) -> None:
    del o.shipments[3]


def _ship_other_bytes(o: Observation) -> None:
    o.shipments[3] = replace(o.shipments[3], value=(o.shipments[3].value or b"") + b" ")


def _ship_under_another_key(o: Observation) -> None:
    o.shipments[3] = replace(o.shipments[3], key=b"STR9999")


def _ship_twice(o: Observation) -> None:
    o.shipments.append(o.shipments[3])


def _lose_a_notification(o: Observation) -> None:
    del o.notifications[-1]


def _lose_a_notification_in_between(o: Observation) -> None:
    del o.notifications[0]


def _notify_a_wrong_total(o: Observation) -> None:
    o.notifications[-1] = _changed(o.notifications[-1], TotalLoyaltyPoints=Decimal("0.0001"))


def _notify_wrong_points(o: Observation) -> None:
    o.notifications[-1] = _changed(o.notifications[-1], EarnedLoyaltyPoints=Decimal("0.0001"))


def _notify_a_wrong_amount(o: Observation) -> None:
    o.notifications[-1] = _changed(o.notifications[-1], TotalAmount=Decimal("0.01"))


def _notify_one_field_more(o: Observation) -> None:
    o.notifications[-1] = _changed(o.notifications[-1], Tier="gold")


def _notify_under_another_key(o: Observation) -> None:
    o.notifications[-1] = replace(o.notifications[-1], key=b"0")


def _notify_a_stranger(o: Observation) -> None:
    o.notifications.append(_changed(o.notifications[-1], InvoiceNumber="1"))


def _notify_twice(o: Observation) -> None:
    o.notifications.append(o.notifications[0])


def _swap_notifications_of_a_customer(o: Observation) -> None:
    last_by_key = {record.key: index for index, record in enumerate(o.notifications)}
    first = next(index for index, record in enumerate(o.notifications) if last_by_key[record.key] > index)
    last = last_by_key[o.notifications[first].key]
    o.notifications[first], o.notifications[last] = o.notifications[last], o.notifications[first]


def _spoil_a_notification(o: Observation) -> None:
    o.notifications[-1] = replace(o.notifications[-1], value=b"{")


def _lose_a_line(o: Observation) -> None:
    del o.masked[7]


def _leak_the_card(o: Observation) -> None:
    o.masked[7] = _changed(o.masked[7], CustomerCardNo="4000104729")


def _change_a_price(o: Observation) -> None:
    o.masked[7] = _changed(o.masked[7], ItemPrice=Decimal("0.01"))


def _drop_a_null_field(o: Observation) -> None:
    fields = json.loads(o.masked[7].value or b"")
    del fields["City"]
    o.masked[7] = replace(o.masked[7], value=_json(fields))


def _key_a_line_wrongly(o: Observation) -> None:
    o.masked[7] = replace(o.masked[7], key=b"STR9999")


def _forget_a_customer(o: Observation) -> None:
    o.stores["b"].popitem()


def _invent_a_customer(o: Observation) -> None:
    o.stores["a"]["0"] = Reward(Decimal(0), 1, 1)


def _count_wrongly(o: Observation) -> None:
    card, reward = o.stores["a"].popitem()
    o.stores["a"][card] = replace(reward, invoices=reward.invoices + 1)


def _serve_nothing(o: Observation) -> None:
    o.stores = {}


def _snapshot_an_old_total(o: Observation) -> None:
    card, reward = o.snapshot.popitem()
    o.snapshot[card] = replace(reward, points=reward.points - Decimal("0.0001"))


def _snapshot_a_wrong_time(o: Observation) -> None:
    card, reward = o.snapshot.popitem()
    o.snapshot[card] = replace(reward, last_time_ms=reward.last_time_ms + 1)


def _snapshot_a_customer_less(o: Observation) -> None:
    o.snapshot.popitem()


def _export_a_row_less(o: Observation) -> None:
    del o.export[0]


def _export_a_row_twice(o: Observation) -> None:
    o.export.append(o.export[0])


def _export_another_value(o: Observation) -> None:
    o.export[0] = (*o.export[0][:-1], Decimal("0.01"))


@pytest.mark.parametrize(
    ("check", "spoil"),
    [
        (SHIPMENTS, _lose_a_shipment),
        (SHIPMENTS, _ship_other_bytes),
        (SHIPMENTS, _ship_under_another_key),
        (SHIPMENTS, _ship_twice),
        (NOTIFICATIONS, _lose_a_notification),
        (NOTIFICATIONS, _lose_a_notification_in_between),
        (NOTIFICATIONS, _notify_a_wrong_total),
        (NOTIFICATIONS, _notify_wrong_points),
        (NOTIFICATIONS, _notify_a_wrong_amount),
        (NOTIFICATIONS, _notify_one_field_more),
        (NOTIFICATIONS, _notify_under_another_key),
        (NOTIFICATIONS, _notify_a_stranger),
        (NOTIFICATIONS, _notify_twice),
        (NOTIFICATIONS, _swap_notifications_of_a_customer),
        (NOTIFICATIONS, _spoil_a_notification),
        (MASKED, _lose_a_line),
        (MASKED, _leak_the_card),
        (MASKED, _change_a_price),
        (MASKED, _drop_a_null_field),
        (MASKED, _key_a_line_wrongly),
        (f"{STORE} of b", _forget_a_customer),
        (f"{STORE} of a", _invent_a_customer),
        (f"{STORE} of a", _count_wrongly),
        (STORE, _serve_nothing),
        (SNAPSHOT, _snapshot_an_old_total),
        (SNAPSHOT, _snapshot_a_wrong_time),
        (SNAPSHOT, _snapshot_a_customer_less),
        (EXPORT, _export_a_row_less),
        (EXPORT, _export_a_row_twice),
        (EXPORT, _export_another_value),
    ],
)
def test_every_planted_difference_is_found(
    expected: Expectation, observed: Observation, check: str, spoil: Callable[[Observation], None]
) -> None:
    spoil(observed)
    differences = compare(expected, observed)
    assert {difference.check for difference in differences} == {check}
    assert all(str(difference).startswith(check) for difference in differences)


def test_one_wrong_total_is_few_differences(expected: Expectation, observed: Observation) -> None:
    observed.notifications[0] = _changed(observed.notifications[0], TotalLoyaltyPoints=Decimal("0.0001"))
    assert 1 <= len(compare(expected, observed)) <= 2
