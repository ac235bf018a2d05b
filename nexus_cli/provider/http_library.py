"""Which library makes the bodies of requests, told without importing it."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def http_library() -> str:
    """`litellm 1.2.3`: what a recorded body was made by."""
    try:
        return f"litellm {version('litellm')}"
    except PackageNotFoundError:
        return "litellm"
