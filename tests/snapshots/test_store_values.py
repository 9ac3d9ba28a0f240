"""The values of a store, as its tables read them."""

from __future__ import annotations

import pytest

from storekeeper.serdes.value_field import ValueField
from storekeeper.snapshots.columns import StoreValues, derived_columns
from storekeeper.stores.versioned import DELETED_VERSION, version_of


@pytest.mark.parametrize("versioned", [True, False])
def test_a_version_has_the_fields_of_its_value_and_a_deletion_none(*, versioned: bool) -> None:
    fields = [ValueField("Amount", "bigint")]
    stored = [version_of(b'{"Amount":3}'), DELETED_VERSION] if versioned else [b'{"Amount":3}', b"\0"]
    read = StoreValues(fields, versioned=versioned).reader()
    (amounts,) = derived_columns(stored, {"Amount": "bigint"}, read)
    assert amounts.to_pylist() == [3, None]
