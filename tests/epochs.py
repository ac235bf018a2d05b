"""Epochs whose header alone matters."""

from __future__ import annotations

from typing import Any

from nexus_cli.core.entry import Epoch
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.wire import WireRules


def make_header(model: str = "", system: str = "", tools: tuple[JsonObject, ...] = (), **more: Any) -> Epoch:
    """Return an epoch without a head."""
    return Epoch(0, None, "start", model, system, tools, WireRules().dumps(), (), 0, **more)
