from __future__ import annotations

import pyarrow as pa
import pytest
from spark_apps.loyalty.spec import LOYALTY, REWARDS

from spark_apps.gate import BatchRefusedError
from spark_apps.generations.catalog import chain_of, first_journal, seed_rules, spec_of, stores_of
from spark_apps.generations.errors import GenerationRefusedError
from spark_apps.generations.journal import Generation, GenerationState
from spark_apps.generations.run import BatchLimit
from spark_apps.generations.seeding import seed_rows
from spark_apps.records.loyalty import rewards_value
from spark_apps.registry import app_named

TIER = chain_of(["rewards-tier"])
BOTH = chain_of(["rewards-tier", "rewards-by-region"])


def batch(*rows: tuple[bytes, bytes]) -> pa.RecordBatch:
    keys, values = zip(*rows, strict=True) if rows else ((), ())
    return pa.record_batch([pa.array(keys, pa.binary()), pa.array(values, pa.binary())], names=["_key", "_value"])


def seeded(*rows: tuple[bytes, bytes], back: str = "", there: str = "rewards-tier") -> list[dict[str, object]]:
    names = [name.split() for name in (back, there)]
    made = seed_rows(iter([batch(*rows)]), back=chain_of(names[0]), there=chain_of(names[1]), rules=seed_rules(LOYALTY))
    return [row for frame in made for row in frame.to_pylist()]


def test_rows_of_any_generation_give_the_same_seed() -> None:
    first = (b"4629", rewards_value("4629", 123_456, 3, 1_500))
    (third,) = BOTH.convert(*first)
    expected = {
        "card": "4629",
        "earned_units": 123_456,
        "invoice_count": 3,
        "last_invoice_time_ms": 1_500,
        "purchases": b"[]",
        "batch_id": -1,
        "problem": None,
    }
    assert seeded(first) == [expected]
    assert seeded(third, back="rewards-tier rewards-by-region", there="") == [expected]
    assert seeded() == []


def test_what_is_wrong_with_a_row_is_told_without_a_byte_of_it() -> None:
    sound = (b"4629", rewards_value("4629", 1, 1, 1))
    without_region = (b"secret", rewards_value("secret", 1, 1, 1))
    of_another = (b"4630", rewards_value("4631", 1, 1, 1))
    found = seeded(sound, without_region, of_another, there="rewards-tier rewards-by-region")
    assert [row["problem"] for row in found] == [None, "ValueError on the way there", "ValueError on the seed"]
    assert [row["card"] for row in found] == ["4629", None, None]
    (unreadable,) = seeded((b"4629", b"{}"), back="rewards-tier")
    assert unreadable["problem"] == "ValidationError on the way back"


def test_a_limit_lets_nothing_begin_behind_it() -> None:
    ended: list[bool] = []
    limit = BatchLimit(4, lambda: ended.append(True))
    run: list[int] = []
    process = limit(lambda _, batch_id: run.append(batch_id))
    process(None, 3)
    process(None, 4)
    assert not ended
    with pytest.raises(BatchRefusedError):
        process(None, 5)
    assert (run, limit.begun, ended) == ([3, 4], 4, [True])


def test_a_generation_has_its_own_topic_and_fields_and_the_stores_table() -> None:
    second = Generation(
        2, GenerationState.LIVE, {"rewards": f"{REWARDS.changelog_topic}-g2"}, migrations=("rewards-tier",)
    )
    (store,) = stores_of(LOYALTY, second)
    assert (store.changelog_topic, store.table_name, store.schema_version) == (second.topics["rewards"], "rewards", 2)
    assert [item.name for item in store.value_fields][:2] == ["CustomerCardNo", "Tier"]
    assert spec_of(LOYALTY, second).stores == (store,)
    assert spec_of(LOYALTY, first_journal(LOYALTY).live_generation) == LOYALTY


def test_an_app_without_rules_for_seeds_has_no_generations() -> None:
    with pytest.raises(GenerationRefusedError, match="pos_fanout can't begin with another generation's content"):
        first_journal(app_named("pos_fanout"))
