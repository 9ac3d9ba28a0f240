"""Invoices for tests, as the JSON objects that a till would write."""

from __future__ import annotations

from typing import Any

import orjson


def sale(**changes: Any) -> dict[str, Any]:
    """A prime customer's home delivery of two items; `changes` replace fields, and those that are `...` go missing."""
    invoice: dict[str, Any] = {
        "InvoiceNumber": "51402977",
        "CreatedTime": 1_595_688_900_348,
        "StoreID": "STR7188",
        "PosID": "POS956",
        "CashierID": "OAS134",
        "CustomerType": "PRIME",
        "CustomerCardNo": "4629185211",
        "TotalAmount": 11114.5,
        "NumberOfItems": 2,
        "PaymentMethod": "CARD",
        "TaxableAmount": 11114.5,
        "CGST": 277.8625,
        "SGST": 277.8625,
        "CESS": 13.893125,
        "DeliveryType": "HOME-DELIVERY",
        "DeliveryAddress": {
            "AddressLine": "444-1842 Something Street",
            "City": "Shivapuri",
            "State": "Madhya Pradesh",
            "PinCode": "561012",
            "ContactNumber": "7762014053",
        },
        "InvoiceLineItems": [
            {
                "ItemCode": "458",
                "ItemDescription": "Wine glass",
                "ItemPrice": 1644.5,
                "ItemQty": 1,
                "TotalValue": 1644.5,
            },
            {"ItemCode": "283", "ItemDescription": "Chair", "ItemPrice": 4735.0, "ItemQty": 2, "TotalValue": 9470.0},
        ],
    }
    return {name: value for name, value in (invoice | changes).items() if value is not ...}


def sale_bytes(**changes: Any) -> bytes:
    """`sale` as a record's value."""
    return orjson.dumps(sale(**changes))
