"""Windows of joins that are made wrongly."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from storekeeper.errors import ConfigurationError
from storekeeper.topology import JoinWindows


@pytest.mark.parametrize("time", [timedelta(seconds=1), 1.5, None])
def test_times_that_are_no_milliseconds_are_refused_with_the_way_on(time: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"whole milliseconds, not .*: use JoinWindows\.of"):
        JoinWindows(time, time)
