"""`/livez`, `/readyz`, `/healthz`, `/healthcheck`, `/metrics`: the status code decides, the body is for people."""

from __future__ import annotations

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from storekeeper.node.query.observing.health import readiness
from storekeeper.node.query.routes.services import QueryServices
from storekeeper.node.query.routes.stores import ReplicaView, replica_view


class HealthView(BaseModel):
    """One word, its reason, and the replicas when they were asked for."""

    status: str
    reason: str
    replicas: list[ReplicaView] | None = None


class HealthcheckView(BaseModel):
    """ksqlDB's shape."""

    isHealthy: bool  # noqa: N815 - ksqlDB's spelling
    details: dict[str, dict[str, bool]]


def health_routes(services: QueryServices) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["health"])

    @routes.get("/livez", response_model_exclude_none=True, responses={503: {"model": HealthView}})
    async def livez(response: Response) -> HealthView:
        """200 while this node works, independent of other nodes; 503 if only a restart helps."""
        if services.following():
            return HealthView(status="alive", reason="the follower runs")
        response.status_code = 503
        return HealthView(status="dead", reason="the follower has ended; the log says why")

    @routes.get("/readyz", response_model_exclude_none=True, responses={503: {"model": HealthView}})
    @routes.get("/healthz", response_model_exclude_none=True, include_in_schema=False)
    async def readyz(response: Response, verbose: str | None = None) -> HealthView:
        """200 once every replica of this node answers, 503 while one restores or can't. `?verbose` lists them."""
        state = readiness(services.catalog)
        response.status_code = 200 if state.ready else 503
        views = [replica_view(status, services.catalog.node) for status in state.replicas]
        return HealthView(
            status="ready" if state.ready else "lost" if state.lost else "restoring",
            reason=state.reason,
            replicas=None if verbose is None else views,
        )

    @routes.get("/healthcheck", responses={503: {"model": HealthcheckView}})
    async def healthcheck(response: Response) -> HealthcheckView:
        """Ready and alive, in ksqlDB's shape."""
        ready, live = readiness(services.catalog).ready, services.following()
        response.status_code = 200 if ready and live else 503
        details = {"stores": {"isHealthy": ready}, "follower": {"isHealthy": live}}
        return HealthcheckView(isHealthy=ready and live, details=details)

    @routes.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def metrics() -> Response:
        """Prometheus' text format."""
        text = await services.scrapes.text()
        await services.gatherer.scheduler.take()
        return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})

    return routes
