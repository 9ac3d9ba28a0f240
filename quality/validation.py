"""One run of a suite over a Spark frame: outcomes without any value of the data, and Data Docs of the same kind.

Great Expectations returns booleans only, so that neither its results nor its Data Docs can repeat a value. A failed
expectation runs again for its number of failing rows, and only that number is kept.
"""

from __future__ import annotations

from pathlib import Path

import great_expectations as gx
from great_expectations.core.expectation_validation_result import ExpectationValidationResult
from great_expectations.data_context import EphemeralDataContext
from great_expectations.data_context.types.base import (
    DataContextConfig,
    InMemoryStoreBackendDefaults,
    ProgressBarsConfig,
)
from great_expectations.datasource.fluent.interfaces import Batch
from great_expectations.expectations import Expectation
from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
from pyspark.sql import DataFrame

from quality import data_docs
from quality.errors import ValidationError
from quality.verdict import Outcome

_BOOLEAN_ONLY = {"result_format": "BOOLEAN_ONLY"}
_COUNTS = {"result_format": "BASIC", "exclude_unexpected_values": True, "partial_unexpected_count": 0}
_DOCS_SITE = "data_docs"


def validate(frame: DataFrame, suite: gx.ExpectationSuite, *, docs_dir: Path | None) -> tuple[Outcome, ...]:
    """Runs the suite and replaces the Data Docs in `docs_dir`, if that is given.

    The frame is read several times: persist it.

    Raises:
        ValidationError: an expectation couldn't be evaluated, so there is no verdict. The message has no values.
    """
    context = _context(docs_dir)
    asset = context.data_sources.add_spark("spark", persist=False).add_dataframe_asset("batch")
    batch_definition = asset.add_batch_definition_whole_dataframe("whole")
    expectations = {_key(each.configuration): each for each in suite.expectations}
    validation = context.validation_definitions.add(
        gx.ValidationDefinition(name=suite.name, data=batch_definition, suite=context.suites.add(suite))
    )
    results = validation.run(batch_parameters={"dataframe": frame}, result_format=_BOOLEAN_ONLY).results
    for result in results:
        _check_evaluated(result)
    if docs_dir is not None:
        data_docs.build(context, docs_dir)
    batch = batch_definition.get_batch({"dataframe": frame})
    return tuple(_outcome(result, batch, expectations[_key(_config(result))]) for result in results)


def _context(docs_dir: Path | None) -> EphemeralDataContext:
    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(),
        progress_bars=ProgressBarsConfig(globally=False),
        data_docs_sites={} if docs_dir is None else {_DOCS_SITE: data_docs.site(docs_dir)},
        analytics_enabled=False,
    )
    return gx.get_context(mode="ephemeral", project_config=config)


def _check_evaluated(result: ExpectationValidationResult) -> None:
    exceptions = result.exception_info or {}
    details = [exceptions] if "raised_exception" in exceptions else list(exceptions.values())
    if any(detail.get("raised_exception") for detail in details):
        # Spark's messages quote values, so they are not passed on.
        config = _config(result)
        msg = f"{config.type} on {config.kwargs.get('column', 'the table')} couldn't be evaluated: see Spark's own log"
        raise ValidationError(msg)


def _config(result: ExpectationValidationResult) -> ExpectationConfiguration:
    config = result.expectation_config
    if config is None:
        raise ValidationError("Great Expectations returned a result without its expectation")
    return config


def _key(config: ExpectationConfiguration) -> tuple[str, str | None, str]:
    return config.type, config.kwargs.get("column"), str(config.notes)


def _outcome(result: ExpectationValidationResult, batch: Batch, expectation: Expectation) -> Outcome:
    failing_rows = None
    if not result.success:
        failing_rows = batch.validate(expectation, result_format=_COUNTS).result.get("unexpected_count")
    kind, column, meaning = _key(_config(result))
    rule = str((expectation.meta or {}).get("rule", ""))
    return Outcome(kind, column, meaning, bool(result.success), failing_rows, rule)
