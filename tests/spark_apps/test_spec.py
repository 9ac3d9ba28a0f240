from __future__ import annotations

from dataclasses import replace

import pytest

from spark_apps.generations.catalog import changing_app, seed_rules
from spark_apps.generations.errors import GenerationRefusedError
from spark_apps.generations.seed_rules import SeedRules
from spark_apps.leaderboard.spec import LEADERBOARD
from spark_apps.loyalty.seeding import SEED_RULES
from spark_apps.loyalty.spec import LOYALTY
from spark_apps.new_app.template_app.spec import TEMPLATE_APP
from spark_apps.pos_fanout.spec import POS_FANOUT
from spark_apps.processor.seeding import SEED_RULES as OF_PROCESSORS
from spark_apps.session_tracker.spec import SESSION_TRACKER
from spark_apps.spec import AppSpec
from spark_apps.ticks.spec import TICKS


@pytest.mark.parametrize(
    ("spec", "rules"), [(LOYALTY, SEED_RULES), (TICKS, OF_PROCESSORS), (TEMPLATE_APP, OF_PROCESSORS)]
)
def test_an_app_with_one_store_of_lasting_rows_can_have_generations(spec: AppSpec, rules: SeedRules) -> None:
    assert spec.has_generations
    assert changing_app(spec) == spec.stores[0]
    assert seed_rules(spec) is rules


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (LEADERBOARD, "keeps 2 stores"),
        (POS_FANOUT, "keeps 0 stores"),
        (replace(SESSION_TRACKER, stores=SESSION_TRACKER.stores[:1]), "of kind session, whose rows are bound"),
        (replace(TICKS, topology=None), "add `seeding` to its spec"),
    ],
)
def test_another_app_says_why_it_cannot(spec: AppSpec, why: str) -> None:
    assert not spec.has_generations
    with pytest.raises(GenerationRefusedError, match=why):
        changing_app(spec)
