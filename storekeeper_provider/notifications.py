"""Notifications: a webhook, and any notifier by its name.

Airflow's variable `storekeeper_notifiers` names those that are notified of failed tasks and missed deadlines, as JSON:
`[{"class": "storekeeper_provider.notifications.WebhookNotifier", "url": "https://…"}]`.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import httpx
from airflow.sdk import BaseNotifier, Variable

if TYPE_CHECKING:
    from airflow.sdk import Context

VARIABLE = "storekeeper_notifiers"
_TIMEOUT_S = 10.0


log = logging.getLogger(__name__)


def notify_all(context: Context) -> None:
    """Tells every notifier that the variable names. Logs what goes wrong, and raises nothing: use it as a callback."""
    try:
        named = Variable.get(VARIABLE, default=[], deserialize_json=True)
        if not isinstance(named, list):
            raise TypeError("it is no list")
    except Exception:
        log.exception("the variable %s can't be read: nobody is notified", VARIABLE)
        return
    for one in named:
        try:
            notifier(one)(context)
        except Exception as error:
            which = one.get("class") if isinstance(one, dict) else "an entry that is no object"
            log.error("%s did not notify: %s", which, error)


class WebhookNotifier(BaseNotifier):
    """Posts `{"text": …, "dag_id": …, "run_id": …, "task_id": …}` to an address, as chat systems take it.

    Args:
        url: where to. Templated: keep a secret address in a variable or connection.
        text: what to say. Templated.
    """

    template_fields = ("url", "text")

    def __init__(
        self, *, url: str, text: str = "{{ dag.dag_id }}: {{ run_id }} needs attention", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.url = url
        self.text = text

    def notify(self, context: Context) -> None:
        """Posts it.

        Raises:
            RuntimeError: the other side doesn't take it. The message doesn't name the address, which may be a secret.
        """
        instance = context.get("ti")
        body = {
            "text": self.text,
            **{name: getattr(instance, name, None) for name in ("dag_id", "run_id", "task_id")},
        }
        try:
            httpx.post(self.url, json=body, timeout=_TIMEOUT_S, trust_env=False).raise_for_status()
        except httpx.HTTPStatusError as error:
            raise RuntimeError(f"the webhook answers with status {error.response.status_code}") from None
        except httpx.HTTPError as error:
            raise RuntimeError(f"the webhook doesn't answer ({type(error).__name__})") from None


def notifier(named: Mapping[str, Any]) -> Any:
    """The notifier that `{"class": "module.Class", **arguments}` names.

    Raises:
        ValueError: there is none of that name, or it doesn't take the arguments.
    """
    arguments = {name: value for name, value in named.items() if name != "class"}
    module, _, name = str(named.get("class", "")).rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)(**arguments)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        msg = f"no notifier can be made of {named.get('class')!r} and {sorted(arguments)}: {error}"
        raise ValueError(msg) from error
