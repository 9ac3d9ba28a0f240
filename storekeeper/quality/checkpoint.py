"""One run of a suite over a frame of Spark or Pandas, as a Checkpoint of Great Expectations with its actions.

The actions, in their order: new Data Docs replace the old ones, the verdict is taken, the table's own hook is called.

Great Expectations returns booleans only, so that neither its results nor its Data Docs can repeat a value. Then it
counts the failing rows of all failed expectations at once.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import great_expectations as gx
import orjson
import structlog
from great_expectations import ExpectationSuite
from great_expectations.checkpoint.actions import ActionContext, ValidationAction
from great_expectations.checkpoint.checkpoint import CheckpointResult
from great_expectations.compatibility.pydantic import PrivateAttr
from great_expectations.core import ExpectationSuiteValidationResult
from great_expectations.core.expectation_validation_result import ExpectationValidationResult
from great_expectations.data_context import EphemeralDataContext
from great_expectations.data_context.types.base import (
    DataContextConfig,
    InMemoryStoreBackendDefaults,
    ProgressBarsConfig,
)
from great_expectations.data_context.types.resource_identifiers import ValidationResultIdentifier
from great_expectations.datasource.fluent.interfaces import Batch
from great_expectations.expectations import Expectation
from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
from great_expectations.render.renderer import (
    ExpectationSuitePageRenderer,
    SiteIndexPageRenderer,
    ValidationResultsPageRenderer,
)
from great_expectations.render.view import DefaultJinjaPageView
from great_expectations.validator.metric_configuration import MetricConfiguration
from great_expectations.validator.metrics_calculator import MetricsCalculator

from storekeeper.apps.checked_table import Notify
from storekeeper.quality.errors import ValidationError
from storekeeper.quality.verdict import Outcome, Verdict

_BOOLEAN_ONLY = {"result_format": "BOOLEAN_ONLY"}

Take = Callable[[tuple[Outcome, ...]], Verdict | None]
"""Decides by the outcomes of the suite, and does what follows from that; None if nothing is decided."""
_Outcomes = Callable[[list[ExpectationValidationResult]], tuple[Outcome, ...]]
_Key = tuple[str, str | None, str]
"""The type, column and meaning of an expectation."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Afterwards:
    """What a Checkpoint does with its results. Data Docs stay without `docs_dir`."""

    take: Take
    docs_dir: Path | None = None
    notify: Notify | None = None


class ReplaceDataDocs(ValidationAction):
    """Builds Data Docs and puts them in the place of the old ones."""

    type: Literal["replace_data_docs"] = "replace_data_docs"
    name: str = "data_docs"
    docs_dir: Path

    def run(self, checkpoint_result: CheckpointResult, action_context: ActionContext | None = None) -> dict[str, Any]:
        """Replaces them, unless an expectation couldn't be evaluated."""
        del action_context
        _evaluated(checkpoint_result)
        [validation] = checkpoint_result.checkpoint_config.validation_definitions
        [(key, results)] = checkpoint_result.run_results.items()
        build(validation.suite, key, results, self.docs_dir)
        return {}


class TakeVerdict(ValidationAction):
    """Decides on the batch."""

    type: Literal["take_verdict"] = "take_verdict"
    name: str = "verdict"
    _outcomes: _Outcomes = PrivateAttr()
    _take: Take = PrivateAttr()

    @classmethod
    def by(cls, take: Take, outcomes: _Outcomes) -> TakeVerdict:
        """The action that takes a verdict by the outcomes of results."""
        action = cls()
        action._take, action._outcomes = take, outcomes
        return action

    def run(self, checkpoint_result: CheckpointResult, action_context: ActionContext | None = None) -> dict[str, Any]:
        """The verdict as JSON types; empty if there is none."""
        del action_context
        verdict = self._take(self._outcomes(_evaluated(checkpoint_result)))
        return {} if verdict is None else dict(orjson.loads(verdict.to_json()))


class NotifyHook(ValidationAction):
    """Calls the table's own hook with the verdict. Its failure changes nothing."""

    type: Literal["notify_hook"] = "notify_hook"
    name: str = "notify"
    _notify: Notify = PrivateAttr()

    @classmethod
    def by(cls, notify: Notify) -> NotifyHook:
        """The action that calls a hook."""
        action = cls()
        action._notify = notify
        return action

    def run(self, checkpoint_result: CheckpointResult, action_context: ActionContext | None = None) -> dict[str, Any]:
        """Calls the hook, if a verdict was taken."""
        del checkpoint_result
        verdicts = [] if action_context is None else action_context.filter_results(TakeVerdict)
        for verdict in filter(None, verdicts):
            try:
                self._notify(verdict)
            except Exception:
                _log.warning("notification_failed", table=verdict.get("table"), exc_info=True)
        return {}


def run_checkpoint(frame: Any, suite: gx.ExpectationSuite, afterwards: Afterwards) -> None:
    """Runs a suite over a frame, then the actions.

    A frame of Spark is read several times: persist it.

    Raises:
        ValidationError: an expectation couldn't be evaluated, so nothing was decided. The message has no values.
    """
    context = _context()
    sources = context.data_sources
    source: Any = sources.add_spark("spark", persist=False) if _is_spark(frame) else sources.add_pandas("pandas")
    batch_definition = source.add_dataframe_asset("batch").add_batch_definition_whole_dataframe("whole")
    expectations = {_key(each.configuration): each for each in suite.expectations}
    validation = context.validation_definitions.add(
        gx.ValidationDefinition(name=suite.name, data=batch_definition, suite=context.suites.add(suite))
    )
    parameters = {"dataframe": frame}

    def outcomes(results: list[ExpectationValidationResult]) -> tuple[Outcome, ...]:
        failed = [expectations[_key(_config(result))] for result in results if not result.success]
        failing = _failing_rows(batch_definition.get_batch(parameters), failed) if failed else {}

        def outcome(result: ExpectationValidationResult) -> Outcome:
            key = _key(_config(result))
            rule = str((expectations[key].meta or {}).get("rule", ""))
            return Outcome(*key, bool(result.success), failing.get(key), rule)

        return tuple(map(outcome, results))

    actions: list[ValidationAction] = []
    if afterwards.docs_dir is not None:
        actions.append(ReplaceDataDocs(docs_dir=afterwards.docs_dir))
    actions.append(TakeVerdict.by(afterwards.take, outcomes))
    if afterwards.notify is not None:
        actions.append(NotifyHook.by(afterwards.notify))
    checkpoint = gx.Checkpoint(
        name=suite.name, validation_definitions=[validation], actions=actions, result_format=_BOOLEAN_ONLY
    )
    checkpoint.run(batch_parameters=parameters)  # adds itself; one from the context would have other actions


def _is_spark(frame: Any) -> bool:
    return hasattr(frame, "sparkSession")


def _context() -> EphemeralDataContext:
    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(),
        progress_bars=ProgressBarsConfig(globally=False),
        data_docs_sites={},
        analytics_enabled=False,
    )
    return gx.get_context(mode="ephemeral", project_config=config)


def _failing_rows(batch: Batch, failed: Iterable[Expectation]) -> dict[_Key, int | None]:
    """How many rows of a batch don't meet each expectation. Those that aren't about rows are left out."""
    wanted: dict[_Key, MetricConfiguration] = {}
    for each in failed:
        metrics = each.get_validation_dependencies(runtime_configuration=_BOOLEAN_ONLY).metric_configurations
        count = metrics.get(f"{getattr(each, 'map_metric', None)}.unexpected_count")
        if count is not None:
            wanted[_key(each.configuration)] = count
    calculator = MetricsCalculator(batch.data.execution_engine, show_progress_bars=False)
    counts, _ = calculator.compute_metrics(list(wanted.values()))
    return {key: counts.get(count.id) for key, count in wanted.items()}


def _evaluated(checkpoint_result: CheckpointResult) -> list[ExpectationValidationResult]:
    """The results of all expectations.

    Raises:
        ValidationError: one couldn't be evaluated.
    """
    results = [each for suite_result in checkpoint_result.run_results.values() for each in suite_result.results]
    for result in results:
        _check_evaluated(result)
    return results


def _check_evaluated(result: ExpectationValidationResult) -> None:
    exceptions = result.exception_info or {}
    details = [exceptions] if "raised_exception" in exceptions else list(exceptions.values())
    if any(detail.get("raised_exception") for detail in details):
        # The engines' messages quote values, so they are not passed on.
        config = _config(result)
        msg = f"{config.type} on {config.kwargs.get('column', 'the table')} couldn't be evaluated: see Spark's own log"
        raise ValidationError(msg)


def _config(result: ExpectationValidationResult) -> ExpectationConfiguration:
    config = result.expectation_config
    if config is None:
        raise ValidationError("Great Expectations returned a result without its expectation")
    return config


def _key(config: ExpectationConfiguration) -> _Key:
    return config.type, config.kwargs.get("column"), str(config.notes)


_TEMPLATES = Path(__file__).with_name("docs_templates")
_STYLES = "data_docs.css"


class OfflineView(DefaultJinjaPageView):
    """Renders a page from our templates, and from Great Expectations' where we have none of the same name."""

    def __init__(self) -> None:
        super().__init__(custom_views_directory=str(_TEMPLATES))
        # Our loader was added last; reversing makes it the first to be searched.
        self.env.loader.loaders.reverse()  # type: ignore[union-attr]

    def render_styling(self, styling: Mapping[str, Any]) -> str:
        """The classes and attributes only: the server of the pages forbids styles within them."""
        return str(super().render_styling({key: value for key, value in styling.items() if key != "styles"}))


@cache
def _view() -> OfflineView:
    """The view of this process, which keeps the templates that it has compiled."""
    return OfflineView()


def build(
    suite: ExpectationSuite, key: ValidationResultIdentifier, result: ExpectationSuiteValidationResult, docs_dir: Path
) -> None:
    """Replaces the Data Docs in `docs_dir` by those of a suite and its result, when the new ones are whole."""
    new, old = (docs_dir.with_name(f".{docs_dir.name}.{which}") for which in ("new", "old"))
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)
    for name, page in _pages(suite, key, result):
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        (new / name).write_text(_view().render(page), "utf-8")  # type: ignore[no-untyped-call]
    shutil.copyfile(_TEMPLATES / _STYLES, new / _STYLES)
    if docs_dir.exists():
        docs_dir.rename(old)
    new.rename(docs_dir)
    shutil.rmtree(old, ignore_errors=True)


def _pages(
    suite: ExpectationSuite, key: ValidationResultIdentifier, result: ExpectationSuiteValidationResult
) -> Iterator[tuple[str, Any]]:
    """The names and contents of the pages."""
    about_suite = f"expectations/{suite.name}.html"
    about_result = f"validations/{'/'.join(key.to_tuple())}.html"  # type: ignore[no-untyped-call]
    yield about_suite, ExpectationSuitePageRenderer().render(suite)  # type: ignore[no-untyped-call]
    yield about_result, ValidationResultsPageRenderer().render(result)
    checked = {
        "expectation_suite_name": suite.name,
        "expectation_suite_filepath": about_suite,
        "filepath": quote(about_result),
        "validation_success": result.success,
        "run_time": key.run_id.run_time,
        "run_name": key.run_id.run_name,
        "batch_identifier": key.batch_identifier,
        "batch_spec": result.meta["batch_spec"],
        "asset_name": result.asset_name,
    }
    described = {"expectation_suite_name": suite.name, "filepath": quote(about_suite)}
    links = {"site_name": "data_docs", "validations_links": [checked], "expectations_links": [described]}
    yield "index.html", SiteIndexPageRenderer.render(links)  # type: ignore[no-untyped-call]
