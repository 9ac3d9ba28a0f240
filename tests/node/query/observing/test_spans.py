"""Spans of requests: their parents, what is passed on, and what turns them on."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from storekeeper.errors import ConfigurationError
from storekeeper.node.query.observing.spans import Spans, TracingVariables, tracer
from storekeeper.trace_context import current_trace
from tests.node.query.protection.test_guard import HOST, Echo, ask, guarded
from tests.test_trace_context import TRACE


class Asked:
    """A node with spans, and the trace that it passes on."""

    def __init__(self) -> None:
        self.passed_on: list[str | None] = []
        self._kept = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self._node = Spans(guarded(Echo(self._note)), "a", provider.get_tracer("test"))

    async def _note(self) -> None:
        self.passed_on.append(current_trace.get())

    def get(self, path: str, *headers: tuple[bytes, bytes]) -> ReadableSpan:
        """The span of a request."""
        self._kept.clear()
        asyncio.run(ask(self._node, path, [HOST, *headers]))  # type: ignore[arg-type]
        (span,) = self._kept.get_finished_spans()
        return span


def identity(span: ReadableSpan) -> str:
    context = span.get_span_context()
    assert context is not None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def test_a_request_continues_the_trace_that_it_names() -> None:
    asked = Asked()
    span = asked.get("/state/keyvalue/rewards/secret-card", (b"traceparent", TRACE))
    assert span.parent is not None
    assert f"{span.parent.trace_id:032x}-{span.parent.span_id:016x}" == TRACE[3:-3].decode()
    assert asked.passed_on == [identity(span)]
    assert span.name == "GET /state/keyvalue"
    assert "secret" not in span.to_json()
    assert span.attributes is not None
    assert span.attributes["http.response.status_code"] == 200
    assert span.attributes["storekeeper.node"] == "a"


@pytest.mark.parametrize("headers", [(), ((b"traceparent", b"nonsense"),)])
def test_a_request_without_one_begins_a_trace(headers: tuple[tuple[bytes, bytes], ...]) -> None:
    asked = Asked()
    span = asked.get("/livez", *headers)
    assert span.parent is None
    assert asked.passed_on == [identity(span)]


def test_a_refusal_has_a_span_too() -> None:
    span = Asked().get("/internal/scan/s")
    assert span.attributes is not None
    assert span.attributes["http.response.status_code"] == 403


def test_spans_are_off_unless_an_exporter_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_TRACES_EXPORTER", raising=False)
    assert tracer(TracingVariables()) is None
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    assert tracer(TracingVariables()) is None
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert tracer(TracingVariables()) is None


def test_an_unknown_exporter_is_refused_with_those_that_are_there() -> None:
    with pytest.raises(ConfigurationError, match=r"OTEL_TRACES_EXPORTER=zipkin: .*console.*otlp"):
        tracer(TracingVariables(traces_exporter="zipkin"))


def test_nothing_of_opentelemetry_is_loaded_while_they_are_off() -> None:
    code = (
        "import sys, storekeeper.node.node\n"
        "from storekeeper.node.query.observing.spans import TracingVariables, tracer\n"
        "assert tracer(TracingVariables(traces_exporter='none')) is None\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
