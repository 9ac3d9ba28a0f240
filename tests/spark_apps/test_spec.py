from __future__ import annotations

from dataclasses import replace

import pytest
from spark_apps.generations.seed_rules import SeedRules
from spark_apps.pos.seeding import SEED_RULES
from spark_apps.pos_fanout.spec import POS_FANOUT
from spark_apps.processor.seeding import SEED_RULES as OF_PROCESSORS

from spark_apps.apps.pos import POS
from spark_apps.apps.ticks import TICKS
from spark_apps.generations.catalog import check_changeable, check_fitting, first_journal, seed_rules, stores_of
from spark_apps.generations.errors import GenerationRefusedError
from spark_apps.new_app.template_app.app import TEMPLATE_APP
from spark_apps.registry import ON_DEMAND_APPS
from spark_apps.spec import AppSpec
from tests.integration.counted_app import COUNTED


@pytest.mark.parametrize(
    ("spec", "rules"),
    [
        (POS, SEED_RULES),
        *((spec, OF_PROCESSORS) for spec in (TEMPLATE_APP, *ON_DEMAND_APPS.values())),
    ],
    ids=lambda item: getattr(item, "name", ""),
)
def test_an_app_with_a_store_that_is_a_processor_or_has_rules_can_have_generations(
    spec: AppSpec, rules: SeedRules
) -> None:
    assert spec.has_generations
    assert seed_rules(spec) is rules


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (POS_FANOUT, "keeps no store"),
        (replace(POS, stores=(*POS.stores, *TICKS.stores)), "of one store, and it keeps 2"),
        (replace(TICKS, topology=None), "add `seeding` to its spec"),
    ],
)
def test_another_app_says_why_it_cannot(spec: AppSpec, why: str) -> None:
    assert not spec.has_generations
    with pytest.raises(GenerationRefusedError, match=why):
        check_changeable(spec)


@pytest.mark.parametrize(
    ("spec", "name", "why"),
    [
        (TICKS, "BY_LETTER", "is of store sums, not of prices"),
        (COUNTED, "BY_HALF", "only an app with exactly one store can do"),
        (COUNTED, "BY_NUMBER", "those of tens hold windows of time"),
    ],
)
def test_a_change_that_does_not_fit_the_apps_stores_is_refused(spec: AppSpec, name: str, why: str) -> None:
    with pytest.raises(GenerationRefusedError, match=why):
        check_fitting(spec, [f"tests.integration.counted_app:{name}"])


def test_an_app_whose_stores_are_others_than_those_of_its_generations_is_refused() -> None:
    first = first_journal(COUNTED).live_generation
    assert stores_of(COUNTED, first) == COUNTED.stores
    with pytest.raises(GenerationRefusedError, match="keeps sums now, and its generation 1 was made with sums, tens"):
        stores_of(replace(COUNTED, stores=COUNTED.stores[:1]), first)
