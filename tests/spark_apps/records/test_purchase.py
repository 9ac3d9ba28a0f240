from __future__ import annotations

import pytest

from spark_apps.records.invoice import parse_invoice
from spark_apps.records.purchase import PrimePurchase, Reached, decode_purchase, encode_purchase, encode_reached
from state.errors import SerializationError
from tests.spark_apps.records.sales import sale_bytes


def test_a_purchase_comes_back() -> None:
    invoice = parse_invoice(b"k", sale_bytes(InvoiceNumber="Nr. 7 ü", TotalAmount=-0.3))
    value = encode_purchase(invoice, 3, 2**40)
    assert decode_purchase(b"4629185211", value) == PrimePurchase(
        "4629185211", 1_595_688_900_348, 3, 2**40, "Nr. 7 ü", -0.3
    )


def test_so_does_how_far_a_task_came() -> None:
    assert decode_purchase(None, encode_reached(Reached(7, 2**40))) == Reached(7, 2**40)


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"k", b""), (b"k", None), (None, None), (None, b"{}"), (b"k", b"x" * 40), (b"\xff", b"\1" + bytes(28))],
)
def test_what_the_fan_out_did_not_write_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(SerializationError, match="something else writing"):
        decode_purchase(key, value)
