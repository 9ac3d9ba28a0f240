"""A plan in words, as Markdown: for a pull request, a terminal, and the approval form. Pure."""

from __future__ import annotations

import orjson

from storekeeper.generations.changes.plan import Change, Plan, Verdict

_WORDS = {
    Verdict.UNCHANGED: "stays as it is",
    Verdict.NEW: "is new",
    Verdict.REBUILD: "stays, its index is rebuilt",
    Verdict.MIGRATE: "can be changed by a new generation",
    Verdict.BREAKS: "WOULD BREAK",
}


def explain_plan(plan: Plan) -> str:
    """All changes, breaking ones first; then the stores that stay as they are, in one line."""
    ordered = sorted(plan.changes, key=lambda change: (change.verdict is not Verdict.BREAKS, change.store))
    unchanged = [change for change in ordered if change.verdict is Verdict.UNCHANGED and not change.details]
    lines = [explain_change(change) for change in ordered if change not in unchanged]
    if unchanged:
        stay = "stays as it is" if len(unchanged) == 1 else "stay as they are"
        lines.append(f"{', '.join(f'**{change.store}**' for change in unchanged)} {stay}\n")
    return "\n".join(lines)


def explain_change(change: Change) -> str:
    """One store's change: a line, and one for each detail, size, time and what to trigger."""
    lines = [f"**{change.store}** {_WORDS[change.verdict]}", *(f"- {detail}" for detail in change.details)]
    if change.keys is not None and change.verdict in {Verdict.MIGRATE, Verdict.BREAKS}:
        size = "" if change.size_bytes is None else f", {_size(change.size_bytes)} in its snapshot"
        lines.append(f"- {change.keys:,} keys{size}")
    if change.minutes is not None:
        lines.append(f"- about {change.minutes} minutes, while reads and writes go on")
    if change.conf:
        lines.append(f"- DAG `migrate_state` with `{orjson.dumps(change.conf).decode()}`")
    return "\n".join(lines) + "\n"


def _size(size_bytes: int) -> str:
    size = float(size_bytes)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")
