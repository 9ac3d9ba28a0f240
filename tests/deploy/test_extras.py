from __future__ import annotations

import pytest

from deploy.entry import missing_package


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("duckdb", "sql"),
        ("prometheus_client.core", "serve"),
        ("airflow.sdk", "airflow"),
        ("delta.tables", "spark"),
        ("great_expectations", "quality"),
        ("supervisor", "platform"),
    ],
)
def test_the_sentence_names_the_extra_that_brings_a_module(module: str, extra: str) -> None:
    sentence = missing_package(module)
    assert sentence is not None
    assert f'pip install "storekeeper[{extra}]"' in sentence


def test_a_module_that_no_extra_brings_has_no_sentence() -> None:
    assert missing_package("state.no_such_module") is None
