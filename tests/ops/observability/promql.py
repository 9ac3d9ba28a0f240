"""What PromQL expressions ask for: metrics, with their label matchers, and the labels that they group by."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_STRING = r'"(?:[^"\\]|\\.)*"'
_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_SELECTOR = re.compile(rf"({_NAME})\s*\{{((?:[^}}\"]|{_STRING})*)\}}")
_MATCHER = re.compile(rf"(\w+)\s*(=~|!~|!=|=)\s*({_STRING})")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_RANGE = re.compile(r"\[[^\]]*\]")
_WORD = re.compile(rf"(?<![\w:.])({_NAME})(?!\s*\()(?![\w:])")
_OPERATORS = frozenset({"and", "or", "unless", "bool", "offset", "inf", "nan", "by", "without", "on", "ignoring"})


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on a label."""

    label: str
    operator: str
    value: str

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether a series with these labels meets it. A value with a variable of Grafana's is met by every label."""
        found = labels.get(self.label)
        if found is None:
            return False
        if "$" in self.value:
            return True
        equal = re.fullmatch(self.value, found) is not None if "~" in self.operator else self.value == found
        return equal != self.operator.startswith("!")


@dataclass(frozen=True, slots=True)
class Selector:
    """A metric and the conditions on its labels."""

    metric: str
    matchers: tuple[Matcher, ...] = ()


def selectors(expr: str) -> list[Selector]:
    """The series that an expression reads."""
    found = [
        Selector(name, tuple(Matcher(label, operator, text[1:-1]) for label, operator, text in _MATCHER.findall(inner)))
        for name, inner in _SELECTOR.findall(expr)
    ]
    rest = _GROUPING.sub(" ", _RANGE.sub(" ", _SELECTOR.sub(" ", expr)))
    bare = [word for word in _WORD.findall(re.sub(_STRING, " ", rest)) if word.lower() not in _OPERATORS]
    return found + [Selector(word) for word in bare]


def grouping_labels(expr: str) -> set[str]:
    """The labels by which an expression joins or sums its series."""
    return {label.strip() for labels in _GROUPING.findall(expr) for label in labels.split(",") if label.strip()}
