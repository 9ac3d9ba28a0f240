from __future__ import annotations

from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.sales import sale, sale_bytes
from spark_apps.records.invoice import PoisonRecordError, parse_invoice
from spark_apps.records.masked import masked_values, parse_hadoop_record
from storekeeper.apps.leaks import MASK

ALLOWED = [
    *("InvoiceNumber", "CreatedTime", "StoreID", "PosID", "CustomerType", "PaymentMethod", "DeliveryType"),
    *("City", "State", "PinCode", "ItemCode", "ItemDescription", "ItemPrice", "ItemQty", "TotalValue"),
]


def masked(**changes: Any) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in masked_values(parse_invoice(b"k", sale_bytes(**changes)))]


def described(text: str, **changes: Any) -> str:
    """What becomes of an item's description."""
    line = sale()["InvoiceLineItems"][0] | {"ItemDescription": text}
    description = masked(InvoiceLineItems=[line], **changes)[0]["ItemDescription"]
    assert isinstance(description, str)
    return description


def test_each_line_has_exactly_the_allowed_fields() -> None:
    lines = masked()
    assert [list(line) for line in lines] == [ALLOWED, ALLOWED]
    address, invoice = sale()["DeliveryAddress"], sale()
    for line, item in zip(lines, sale()["InvoiceLineItems"], strict=True):
        assert line == {name: (invoice | address | item)[name] for name in ALLOWED}


def test_fields_without_an_address_are_null_and_not_absent() -> None:
    line = masked(DeliveryType="TAKEAWAY", DeliveryAddress=...)[0]
    assert list(line) == ALLOWED
    assert (line["City"], line["State"], line["PinCode"]) == (None, None, None)


def test_an_invoice_without_items_has_no_lines() -> None:
    assert masked(InvoiceLineItems=[]) == []


@pytest.mark.parametrize(
    "text",
    [
        "card 4629185211",
        "card 4629-1852-11",
        "x4629185211x",
        "call 7762014053",
        "call +91 77620 14053",
        "to 444-1842 Something Street",
        "to 444 1842, SOMETHING   street!",
        "(776) 201-4053 and 4629 185211",
    ],
)
def test_free_text_loses_what_repeats_a_secret(text: str) -> None:
    cleaned = described(text)
    assert MASK in cleaned
    packed = "".join(letter for letter in cleaned if letter.isalnum())
    for secret in ("4629185211", "7762014053", "somethingstreet"):
        assert secret not in packed.lower()


@pytest.mark.parametrize(
    "text", ["Wine glass 12", "Street lamp", "Model 4629", "1842 pieces", "Product 44418421", "Ünïcødé", ""]
)
def test_free_text_is_otherwise_left_alone(text: str) -> None:
    assert described(text) == text


def test_city_state_and_payment_method_are_free_text_too() -> None:
    address = sale()["DeliveryAddress"] | {"City": "Pune 7762014053", "State": "4629185211"}
    line = masked(DeliveryAddress=address, PaymentMethod="CARD 4629185211")[0]
    assert (line["City"], line["State"], line["PaymentMethod"]) == (f"Pune {MASK}", MASK, f"CARD {MASK}")


def test_a_short_card_number_is_no_part_of_a_longer_number() -> None:
    assert described("disc 00012, part 1000129", CustomerCardNo="00012") == f"disc {MASK}, part 1000129"


def test_a_card_number_of_letters_is_cut_out_too() -> None:
    assert described("see gold-ABCD now", CustomerCardNo="GOLD-ABCD") == f"see {MASK} now"


@pytest.mark.parametrize("repeated", ["AX7K2M91QF", "ax7k2m91qf", "AX7K-2M91 QF"])
@pytest.mark.parametrize("card", ["AX7K2M91QF", "AX7K-2M91-QF"])
def test_a_card_number_of_letters_and_digits_is_cut_out_too(card: str, repeated: str) -> None:
    assert described(f"refill for {repeated} now", CustomerCardNo=card) == f"refill for {MASK} now"


@pytest.mark.parametrize(
    ("line", "text"), [("Hauptstraße 5", "to HAUPTSTRASSE 5"), ("HAUPTSTRASSE 5", "to Hauptstraße 5")]
)
def test_an_address_in_letters_that_fold_to_others_is_masked(line: str, text: str) -> None:
    assert described(text, DeliveryAddress=sale()["DeliveryAddress"] | {"AddressLine": line}) == MASK


def test_words_of_an_address_that_stand_apart_stay() -> None:
    address = sale()["DeliveryAddress"] | {"AddressLine": "Main Street"}
    assert described("street lamp, main unit", DeliveryAddress=address) == "street lamp, main unit"


def test_masking_makes_no_text_too_long() -> None:
    assert len(described("0123 " * 200, CustomerCardNo="0123")) <= 1024


@given(st.text(max_size=40), st.text(max_size=40))
def test_the_card_number_is_gone_whatever_surrounds_it(before: str, after: str) -> None:
    before, after = (text.encode(errors="replace").decode() for text in (before, after))
    assert "4629185211" not in described(f"{before}4629185211{after}")


def test_lines_survive_their_own_bytes() -> None:
    for line in masked_values(parse_invoice(b"k", sale_bytes())):
        assert msgspec.json.encode(parse_hadoop_record(b"STR7188", line)) == line


@pytest.mark.parametrize("name", ALLOWED)
def test_a_line_that_lacks_a_field_is_poison(name: str) -> None:
    line = {field: value for field, value in masked()[0].items() if field != name}
    with pytest.raises(PoisonRecordError):
        parse_hadoop_record(b"k", orjson.dumps(line))
