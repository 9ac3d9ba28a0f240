"""The names of products, on every node. Key: ProductID."""

from __future__ import annotations

import msgspec

from storekeeper import Store, json_name


class Product(msgspec.Struct, frozen=True, rename=json_name):
    """A product."""

    product_id: str
    name: str


PRODUCTS = Store("products", Product, everywhere=True)
