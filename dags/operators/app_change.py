"""What `scale` and `upgrade` do before the restart: write the app's size, or check the installed code."""

from __future__ import annotations

from collections.abc import Mapping

from airflow.sdk.exceptions import AirflowException, AirflowFailException
from pydantic import ValidationError

from dags.operators.settings import OperationsSettings
from dags.operators.storekeeper import answer_of
from spark_apps.runtime.scale import AppScale, read_scale, write_scale

_CHECK_S = 120
_UNSAID = "None"


def change_scale(app: str, wanted: Mapping[str, str], settings: OperationsSettings) -> AppScale | None:
    """Writes an app's size, which applies from its next start. Returns the size before; None if it stays the same.

    `wanted` maps fields of `AppScale` to text: "None" leaves a field as it is, "0" unsets it.

    Raises:
        AirflowFailException: a value isn't valid, or no field is given.
    """
    said = {name: int(text) or None for name, text in wanted.items() if text != _UNSAID}
    if not said:
        names = ", ".join(f"`{name}`" for name in AppScale.model_fields)
        msg = f"`scale` needs at least one of {names}: nothing was changed"
        raise AirflowFailException(msg)
    before = read_scale(settings.scale_file(app))
    try:
        after = AppScale.model_validate(before.model_dump() | said)
    except ValidationError as error:
        first = error.errors()[0]
        msg = f"`{first['loc'][0]}` can't be used ({first['msg']}): nothing was changed"
        raise AirflowFailException(msg) from error
    write_scale(settings.scale_file(app), after)
    return None if after == before else before


def check_code(app: str) -> None:
    """Checks whether the installed code can run an app, in a process of its own. The app keeps running.

    Raises:
        AirflowFailException: it can't; the message has the reasons.
    """
    try:
        answer_of("check", "upgrade", app, timeout_s=_CHECK_S)
    except AirflowException as error:
        msg = f"{app} runs on as it was: the code that is installed can't take over. {error}"
        raise AirflowFailException(msg) from error
