"""Sessions: turn triggers into events. The exports are loaded on access."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nexus_cli.session.logger import LogConfig, SessionLogger
    from nexus_cli.session.session import Session

__all__ = ["LogConfig", "Session", "SessionLogger"]

_HOMES = {"LogConfig": "logger", "Session": "session", "SessionLogger": "logger"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
