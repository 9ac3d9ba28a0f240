"""The oracle's own arithmetic, on invoices small enough to check by eye."""

from __future__ import annotations

import ast
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

from demo import oracle
from demo.invoices import Record
from demo.oracle import Earning, Reward, expect


def _invoice(number: str, **changes: Any) -> Record:
    fields = {
        "InvoiceNumber": number,
        "CreatedTime": 1000,
        "StoreID": "STR1",
        "PosID": "POS1",
        "CustomerType": "PRIME",
        "CustomerCardNo": "77",
        "TotalAmount": 11.77,
        "PaymentMethod": "CASH",
        "DeliveryType": "TAKEAWAY",
        "InvoiceLineItems": [
            {"ItemCode": "CD1", "ItemDescription": "a", "ItemPrice": 1.5, "ItemQty": 2, "TotalValue": 3.0},
            {"ItemCode": "CD2", "ItemDescription": "b", "ItemPrice": 8.77, "ItemQty": 1, "TotalValue": 8.77},
        ],
    }
    return Record("pos", b"STR1", json.dumps(fields | changes).encode())


def test_points_are_two_hundredths_of_the_amount_to_four_decimals() -> None:
    expected = expect([_invoice("1"), _invoice("2", TotalAmount=0.03, CreatedTime=900)])
    assert expected.earnings == {
        "1": Earning("77", Decimal("11.77"), Decimal("0.2354")),
        "2": Earning("77", Decimal("0.03"), Decimal("0.0006")),
    }
    assert expected.rewards == {"77": Reward(Decimal("0.2360"), 2, 1000)}


def test_only_prime_customers_earn_in_any_case_of_letters() -> None:
    expected = expect([_invoice("1", CustomerType="NONPRIME"), _invoice("2", CustomerType="prime")])
    assert list(expected.earnings) == ["2"]


def test_home_deliveries_are_shipped_as_they_came() -> None:
    delivered = _invoice("1", DeliveryType="home-delivery", DeliveryAddress={"City": "Pune"})
    expected = expect([delivered, _invoice("2")])
    assert expected.shipments == {(delivered.key, delivered.value): 1}


def test_masked_rows_hold_the_allowed_fields_and_nothing_where_there_is_none() -> None:
    address = {"AddressLine": "1 Secret Lane", "City": "Pune", "State": "MH", "PinCode": "411001"}
    expected = expect([_invoice("1", DeliveryAddress=address), _invoice("2")])
    head = ("PRIME", "CASH", "TAKEAWAY")
    assert ("1", 1000, "STR1", "POS1", *head, "Pune", "MH", "411001", "CD1", "a", 1.5, 2, 3) in expected.masked
    assert ("2", 1000, "STR1", "POS1", *head, None, None, None, "CD2", "b", Decimal("8.77"), 1, Decimal("8.77")) in (
        expected.masked
    )
    assert sum(expected.masked.values()) == 4
    assert "Secret" not in str(expected.masked)


def test_it_shares_no_code_with_what_it_checks() -> None:
    tree = ast.parse(Path(oracle.__file__).read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {name for name in imported if name and name.partition(".")[0] not in sys.stdlib_module_names} == {
        "demo.invoices"
    }
