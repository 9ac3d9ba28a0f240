"""Rules for every row of the store, in addition to the types of its fields."""

from __future__ import annotations

from storekeeper import CheckedColumn, CheckedTable

CHECKS = CheckedTable("template_app_totals", columns=(CheckedColumn("Events", "bigint", least=1),))
