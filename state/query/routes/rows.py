"""What every row of an answer has, as the OpenAPI document shows it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel


class AnyRow(BaseModel):
    """`key_format` and `value_format` are there if a key is no UTF-8 or a value no JSON: then they are base64url."""

    key: str
    key_format: Literal["base64url"] | None = None
    value: object
    value_format: Literal["base64url"] | None = None


class KeyedRow(AnyRow):
    """A row. Its value is the JSON that the app wrote."""
