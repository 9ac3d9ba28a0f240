"""Commands on apps act on apps alone."""

from __future__ import annotations

import pytest

from storekeeper.errors import ConfigurationError
from storekeeper.ops.control import app_actions
from storekeeper.ops.control.app_actions import change_app


class Programs:
    """A supervisor with processes of every kind."""

    def names(self) -> list[str]:
        return ["airflow-scheduler", "control", "kafka", "node-a", "pos", "ticks"]


@pytest.mark.parametrize("name", ["kafka", "node-a", "control", "airflow-scheduler", "none"])
def test_a_name_that_is_no_apps_is_refused_with_those_of_apps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_actions, "supervisor_of", lambda _: Programs())
    with pytest.raises(ConfigurationError, match=rf"^{name} is no app of this platform: name one of pos, ticks$"):
        change_app(name, "restart", {}, check=lambda: None)
