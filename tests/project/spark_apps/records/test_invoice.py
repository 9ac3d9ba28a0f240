from __future__ import annotations

from typing import Any

import pytest

from harness.sales import sale, sale_bytes
from spark_apps.records.invoice import PoisonRecordError, parse_invoice
from storekeeper.apps.records import text_key


def test_every_field_is_read() -> None:
    invoice = parse_invoice(b"STR7188", sale_bytes())
    assert invoice.invoice_number == "51402977"
    assert invoice.created_time_ms == 1_595_688_900_348
    assert (invoice.store_id, invoice.pos_id, invoice.cashier_id) == ("STR7188", "POS956", "OAS134")
    assert (invoice.customer_type, invoice.customer_card_no) == ("PRIME", "4629185211")
    assert (invoice.total_amount, invoice.taxable_amount, invoice.number_of_items) == (11114.5, 11114.5, 2)
    assert (invoice.cgst, invoice.sgst, invoice.cess) == (277.8625, 277.8625, 13.893125)
    assert (invoice.payment_method, invoice.delivery_type) == ("CARD", "HOME-DELIVERY")
    assert invoice.delivery_address is not None
    assert invoice.delivery_address.city == "Shivapuri"
    assert [line.item_code for line in invoice.line_items] == ["458", "283"]


@pytest.mark.parametrize("written", ["PRIME", "prime", "Prime"])
def test_customer_types_are_read_in_any_case(written: str) -> None:
    assert parse_invoice(b"k", sale_bytes(CustomerType=written)).is_prime


@pytest.mark.parametrize("written", ["HOME-DELIVERY", "home-delivery", "Home-Delivery"])
def test_delivery_types_are_read_in_any_case(written: str) -> None:
    assert parse_invoice(b"k", sale_bytes(DeliveryType=written)).is_home_delivery


@pytest.mark.parametrize("address", [None, ...])
def test_takeaways_need_no_address(address: Any) -> None:
    assert parse_invoice(b"k", sale_bytes(DeliveryType="takeaway", DeliveryAddress=address)).delivery_address is None


def test_others_than_prime_customers_need_no_card() -> None:
    assert not parse_invoice(b"k", sale_bytes(CustomerType="NONPRIME", CustomerCardNo="")).is_prime


def test_whole_numbers_are_amounts_and_unknown_fields_are_ignored() -> None:
    invoice = parse_invoice(b"k", sale_bytes(TotalAmount=12, Surprise={"a": [1]}))
    assert invoice.total_amount == 12


@pytest.mark.parametrize("name", [name for name in sale() if name != "DeliveryAddress"])
@pytest.mark.parametrize("value", [..., None, {"a": 1}, True], ids=["missing", "null", "object", "boolean"])
def test_a_field_that_is_missing_or_has_the_wrong_type_is_poison(name: str, value: Any) -> None:
    with pytest.raises(PoisonRecordError):
        parse_invoice(b"k", sale_bytes(**{name: value}))


@pytest.mark.parametrize(
    "changes",
    [
        {"DeliveryAddress": ...},
        {"DeliveryAddress": None},
        {"DeliveryAddress": {"City": "Pune"}},
        {"CustomerType": "GOLD"},
        {"CustomerType": "pr\u0131me"},
        {"DeliveryType": "DRONE"},
        {"CustomerCardNo": ""},
        {"CustomerCardNo": 4629185211},
        {"InvoiceNumber": ""},
        {"StoreID": ""},
        {"StoreID": "S" * 1025},
        {"TotalAmount": "12.5"},
        {"TotalAmount": 1e10},
        {"TotalAmount": -1e300},
        {"CreatedTime": -1},
        {"CreatedTime": 1.5},
        {"CreatedTime": 10**15},
        {"NumberOfItems": 10**10},
        {"InvoiceLineItems": [1]},
        {"InvoiceLineItems": [{"ItemCode": "1"}]},
    ],
    ids=str,
)
def test_values_out_of_bounds_are_poison(changes: dict[str, Any]) -> None:
    with pytest.raises(PoisonRecordError):
        parse_invoice(b"k", sale_bytes(**changes))


@pytest.mark.parametrize("character", ["\x00", "\n", "\x7f", "\x9f"], ids=ascii)
@pytest.mark.parametrize("name", ["InvoiceNumber", "StoreID", "CustomerCardNo"])
def test_keys_have_no_control_characters(name: str, character: str) -> None:
    for text in (character, f"12{character}", f"{character}12", f"1{character}2"):
        with pytest.raises(PoisonRecordError, match=f"{name}.* has control characters") as caught:
            parse_invoice(b"k", sale_bytes(**{name: text}))
        assert text not in str(caught.value)
    line = {**sale()["InvoiceLineItems"][0], "ItemCode": f"45{character}8"}
    with pytest.raises(PoisonRecordError, match="ItemCode has control characters"):
        parse_invoice(b"k", sale_bytes(InvoiceLineItems=[line]))
    assert parse_invoice(b"k", sale_bytes(**{name: "Zoë 12"}))


@pytest.mark.parametrize("key", [b"\x00", b"a\n", b"a\xc2\x85"])
def test_a_key_that_becomes_a_text_has_none_either(key: bytes) -> None:
    with pytest.raises(PoisonRecordError, match="the key has control characters"):
        text_key(key)
    assert text_key("Zoë 12".encode()) == "Zoë 12"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, sale_bytes()),
        (b"", sale_bytes()),
        (b"k" * 1025, sale_bytes()),
        (b"k", None),
        (b"k", b""),
        (b"k", b"\xff\xfe"),
        (b"k", sale_bytes(Note="x").replace(b'"Note":"x"', b'"Note":"\xff"')),
        (b"k", sale_bytes(PosID="P").replace(b'"PosID":"P"', b'"PosID":"\\ud800"')),
        (b"k", sale_bytes()[:-1]),
        (b"k", sale_bytes() + b"{}"),
        (b"k", b"[]"),
        (b"k", b"null"),
        (b"k", b"42"),
        (b"k", b"[" * 200_000),
        (b"k", b'{"x":' + b"[" * 200_000),
        (b"k", sale_bytes(TotalAmount=1).replace(b'"TotalAmount":1', b'"TotalAmount":NaN')),
        (b"k", sale_bytes(TotalAmount=1).replace(b'"TotalAmount":1', b'"TotalAmount":1e999')),
        (b"k", sale_bytes(Note="x" * 300_000)),
    ],
    ids=lambda part: None if part is None else repr(part[:12]),
)
def test_bytes_that_are_no_invoice_are_poison(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(PoisonRecordError):
        parse_invoice(key, value)


def test_the_largest_allowed_size_is_inclusive() -> None:
    value = sale_bytes()
    parse_invoice(b"k", value, max_record_bytes=len(value))
    with pytest.raises(PoisonRecordError, match=f"larger than {len(value) - 1} bytes"):
        parse_invoice(b"k", value, max_record_bytes=len(value) - 1)


def test_reasons_hold_nothing_of_the_record() -> None:
    secret = "4629185211"
    for changes in (
        {"CustomerType": secret},
        {"DeliveryType": secret},
        {"TotalAmount": secret},
        {"CreatedTime": secret},
    ):
        with pytest.raises(PoisonRecordError) as caught:
            parse_invoice(secret.encode(), sale_bytes(**changes))
        assert secret not in str(caught.value)
