"""The functions that topology cases name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def text(value: Any) -> str:
    return "null" if value is None else str(value)


def _merged(left: Any, right: Any, wins: str) -> Any:
    left, right = left or {}, right or {}
    shared = sorted(left.keys() & right.keys())
    if shared and wins == "raise":
        msg = f"overlapping columns: {', '.join(shared)}"
        raise OverlappingColumnsError(msg)
    return {**right, **left} if wins == "left" else {**left, **right}


class OverlappingColumnsError(Exception):
    """Both sides of a join have a column of that name."""


JOINERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "concat_plus": lambda _, left, right: f"{text(left)}+{text(right)}",
    "concat_dash": lambda _, left, right: f"{text(left)}-{text(right)}",
    "concat_percent": lambda _, left, right: f"{text(left)}%{text(right)}",
    "concat": lambda _, left, right: f"{text(left)}{text(right)}",
    "paren": lambda _, left, right: f"({text(left)},{text(right)})",
    "sum": lambda _, left, right: left + right,
    "key_colon_sum": lambda key, left, right: f"{text(key)}:{text(left + (right or 0))}",
    "label12": lambda _, left, right: f"value1={text(left)},value2={text(right)}",
    "label3": lambda _, left, right: f"{text(left)},value3={text(right)}",
    "merge_raise": lambda _, left, right: _merged(left, right, "raise"),
    "merge_keep_left": lambda _, left, right: _merged(left, right, "left"),
    "merge_keep_right": lambda _, left, right: _merged(left, right, "right"),
}
PREDICATES: dict[str, Callable[[Any, Any], bool]] = {
    "key_even": lambda key, _: key % 2 == 0,
    "key_mult3": lambda key, _: key % 3 == 0,
    "key_mult5": lambda key, _: key % 5 == 0,
    "key_mult7": lambda key, _: key % 7 == 0,
    "key_negative": lambda key, _: key < 0,
    "value_even": lambda _, value: value is not None and value % 2 == 0,
}
WORDS = {1: "ONE", 2: "TWO", 3: "THREE"}


def _after_comma(_: Any, value: Any) -> Any:
    return value.split(",", 1)[1] if "," in value else None


def _after_bar(_: Any, value: Any) -> Any:
    rest = value.split("|", 1)[1] if "|" in value else None
    return None if rest == "returnNull" else rest


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "value": lambda _, value: value,
    "key": lambda key, _: key,
    "null": lambda _, __: None,
    "number_word": lambda _, value: WORDS[value],
    "number_word_of_key": lambda key, _: WORDS[key],
    "as_string_of_key": lambda key, _: text(key),
    "as_int": lambda _, value: int(value),
    "as_string": lambda _, value: text(value),
    "length": lambda _, value: len(value),
    "plus_one": lambda _, value: value + 1,
    "plus_two": lambda _, value: value + 2,
    "after_bar": _after_bar,
    "after_comma": _after_comma,
    "before_dash": lambda _, value: int(value.split("-", 1)[0]),
    "whole_text": lambda _, value: text(int(float(value))),
    "ten_if_value2_10": lambda _, value: 10 if "value2=10" in value else 0,
    "swap": lambda key, value: (value, key),
    "identity_kv": lambda key, value: (key, value),
    "value_value": lambda _, value: (value, value),
    "key_int_value": lambda key, value: (key, int(value)),
    "null_key": lambda _, value: (None, value),
    "one": lambda key, value: [(key, value)],
    "repeat_key_times": lambda key, value: [(str(10 * key + number), value) for number in range(key)],
    "v_and_V": lambda _, value: [f"v{text(value)}", f"V{text(value)}"],
    "v_and_k": lambda _, value: [f"v{text(value)}", f"k{text(value)}"],
}
ADDERS: dict[str, Callable[[Any, Any], Any]] = {
    "append": lambda one, two: f"{text(one)}{text(two)}",
    "plus_append": lambda one, two: f"{text(one)}+{text(two)}",
    "minus_append": lambda one, two: f"{text(one)}-{text(two)}",
    "colon_append": lambda one, two: f"{text(one)}:{text(two)}",
    "add": lambda one, two: one + two,
    "subtract": lambda one, two: one - two,
    "add_parsed": lambda one, two: one + int(two),
    "list_append": lambda one, two: [*one, two],
}
