"""HTTP load by wrk: one thread, requests made before the clock starts, percentiles as wrk counts them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_SCRIPT = """
local requests, at = {}, 0
function init(args)
  local headers = { %(headers)s }
  for line in io.lines(%(lines)s) do
    local path, body = line:match("^(%%S+) ?(.*)$")
    if body == "" then
      requests[#requests + 1] = wrk.format("GET", path, headers)
    else
      headers["content-type"] = "application/json"
      requests[#requests + 1] = wrk.format("POST", path, headers, body)
    end
  end
end
function request()
  at = at %% #requests + 1
  return requests[at]
end
function done(summary, latency)
  local errors = summary.errors
  print(string.format(
    '{"requests":%%d,"seconds":%%f,"failed":%%d,"p50_ms":%%f,"p99_ms":%%f}',
    summary.requests, summary.duration / 1e6,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
"""


@dataclass(frozen=True, slots=True)
class Load:
    """What one run of wrk found. `failed` counts answers other than 2xx and 3xx, and what broke on the way."""

    requests: int
    seconds: float
    failed: int
    p50_ms: float
    p99_ms: float

    @property
    def per_second(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds


def missing() -> str | None:
    """What to do before wrk can run; None if it can."""
    return None if shutil.which("wrk") else "wrk is not installed: apt-get install wrk, and run this again"


class Wrk:
    """Asks the same requests over and over.

    Args:
        folder: where it may write; one Wrk each.
        requests: paths; behind a space, the body of a POST.
        headers: sent with each request.
    """

    def __init__(self, folder: Path, requests: Sequence[str], headers: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True)
        lines, self._script = folder / "requests.txt", folder / "requests.lua"
        lines.write_text("\n".join(requests) + "\n")
        written = ", ".join(f"[{json.dumps(name)}] = {json.dumps(value)}" for name, value in (headers or {}).items())
        self._script.write_text(_SCRIPT % {"headers": written, "lines": json.dumps(str(lines))})

    def run(self, address: str, *, connections: int, seconds: int) -> Load:
        """Load on one server for so long."""
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(self._script), address]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return Load(**json.loads(output.splitlines()[-1]))
