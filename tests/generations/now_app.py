"""An app of a test with one store, whose part the test plays."""

from __future__ import annotations

from storekeeper.apps.spec import AppSpec, StoreSpec
from storekeeper.serdes.value_field import ValueField

WORDS = AppSpec(
    "words-now",
    "Words of a test",
    lambda _: (),
    lambda _: (),
    stores=(StoreSpec("words", "words-now", (ValueField("Word", "string"), ValueField("At", "timestamp"))),),
)
