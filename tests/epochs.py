"""Epochs whose header alone matters, and the lines that they begin with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nexus_cli.conversation.render import Wire
from nexus_cli.core.entry import Epoch, WindowItem
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.wire import WireRules


def make_header(model: str = "", system: str = "", tools: tuple[JsonObject, ...] = (), **more: Any) -> Epoch:
    """Return an epoch without a head."""
    return Epoch(0, None, "start", model, system, tools, WireRules().dumps(), (), 0, **more)


def prefix_sha256(epoch: Epoch, items: Sequence[WindowItem]) -> str:
    """Return the hash of the lines with which a request of these arranged items begins."""
    wire = Wire(epoch)
    wire.extend(items)
    return wire.sha256
