"""A span of OpenTelemetry for each request that a node answers, where the standard variables ask for them.

`OTEL_TRACES_EXPORTER` names the exporter: `otlp`, `console` or another one that is installed. Without it, or with
`none`, no package of OpenTelemetry is loaded. All other `OTEL_…` variables are read by OpenTelemetry itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import structlog
from pydantic_settings import BaseSettings, SettingsConfigDict

from storekeeper.errors import ConfigurationError
from storekeeper.node.security.hop import HOP
from storekeeper.trace_context import TRACEPARENT, trace_of

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

log = structlog.get_logger(__name__)

_EXPORTERS = "opentelemetry_traces_exporter"
_HEADER, _HOP = TRACEPARENT.encode(), HOP.encode()


class TracingVariables(BaseSettings):
    """The standard variables that decide whether there are spans."""

    model_config = SettingsConfigDict(env_prefix="OTEL_", extra="ignore")

    traces_exporter: str = "none"
    sdk_disabled: bool = False


def tracer(variables: TracingVariables) -> Tracer | None:
    """What makes spans and exports them in the background; None if they are off or OpenTelemetry is not installed.

    Raises:
        ConfigurationError: no exporter has the name.
    """
    name = variables.traces_exporter
    if variables.sdk_disabled or name in {"", "none"}:
        return None
    try:
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - optional, and it takes time to load
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        log.warning("no_spans", why="OTEL_TRACES_EXPORTER is set and opentelemetry-sdk is not installed")
        return None
    exporters = entry_points(group=_EXPORTERS, name=name)
    if not exporters:
        known = ", ".join(sorted(entry_points(group=_EXPORTERS).names))
        msg = f"OTEL_TRACES_EXPORTER={name}: there is no such exporter. Name one of {known} or none, or install it"
        raise ConfigurationError(msg)
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(next(iter(exporters)).load()()))
    return provider.get_tracer("storekeeper")


class Spans:
    """ASGI in front of a guard: a span around each request. What `app` passes on names that span as its parent.

    Requests that are answered before ASGI have none. Those with a `traceparent` never are.
    """

    def __init__(self, app: Any, node: str, made_by: Tracer) -> None:
        self._app = app
        self._node = node
        self._tracer = made_by

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers one ASGI connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        from opentelemetry.trace import SpanKind  # noqa: PLC0415 - optional

        with self._tracer.start_as_current_span(
            f"{scope['method']} {_group(scope['path'])}",
            context=_parent(scope["headers"]),
            kind=SpanKind.SERVER,
            attributes=self._attributes(scope),
        ) as span:

            async def sending(message: Any) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                await send(message)

            await self._app(
                {**scope, "headers": _with_trace(scope["headers"], span.get_span_context())}, receive, sending
            )

    def _attributes(self, scope: Any) -> Mapping[str, str]:
        attributes = {"http.request.method": scope["method"], "storekeeper.node": self._node}
        asker = next((value for name, value in scope["headers"] if name == _HOP), None)
        return attributes if asker is None else {**attributes, "storekeeper.asked_by": asker.decode(errors="replace")}


def _group(path: str) -> str:
    """`/state/GROUP`: no name of a store and no key gets into a span."""
    return "/".join(path.split("/")[:3])


def _parent(headers: Any) -> Any:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415 - optional

    given = next((value for name, value in headers if name == _HEADER), None)
    trace = trace_of(given)
    return TraceContextTextMapPropagator().extract({} if trace is None else {TRACEPARENT: trace.decode()})


def _with_trace(headers: Any, span: Any) -> list[tuple[bytes, bytes]]:
    own = b"00-%032x-%016x-%02x" % (span.trace_id, span.span_id, span.trace_flags)
    return [*((name, value) for name, value in headers if name != _HEADER), (_HEADER, own)]
