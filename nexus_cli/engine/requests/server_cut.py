"""Report that a model server read only a part of a request: some cut a long prompt without an error."""

from __future__ import annotations

from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.request_plan import RequestPlan
from nexus_cli.core.entry import Cause
from nexus_cli.engine.requests.control import Control
from nexus_cli.provider.model_table import window_command


def report_cut(context: ContextManager, control: Control, step: int, request: RequestPlan, reported: int) -> str:
    """Record a drop, tell the person and return the line for the model, once a run, if the server read far fewer tokens
    of the sent `request` than it has; else return "". `reported` is the server's own count."""
    conversation = context.conversation
    # Images and the thinking of earlier turns are charged in other ways by each provider.
    unsure = sum(item.tokens for item in conversation.items if item.message.parts or item.message.opaque)
    if context.cut_run == conversation.run or not request.is_cut_by(reported, unsure):
        return ""
    context.cut_run = conversation.run
    cut = request.tokens - reported
    count = f"request {step}: the server counted {reported:,} of about {request.tokens:,} tokens"
    span = min(request.window.entries), max(request.window.entries)
    drop = conversation.record_drop(f"part of {count}", cut, Cause.SERVER, entries=span)
    control.emit_drop(drop)
    info = context.model.info
    notice = f"{info.served_name} seems to have truncated {count}; usually the beginning is lost"
    how = f"Give the server a larger context window, or set its actual size: {window_command(info, reported)}"
    control.emit_notice(f"{notice}. {how}")
    return f"The server seems to have cut about {cut:,} tokens of the last request, usually its start: drop {drop.id}"
