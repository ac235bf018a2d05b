"""The message that holds a summary: its prefix, and how to read it."""

from __future__ import annotations

from nexus_cli.core.clock import Clock, format_local_time, local_now
from nexus_cli.core.message import Message, Role

SUMMARY_PREFIX = "[CONTEXT SUMMARY"

INTRODUCTION = """\
The earlier part of this conversation was removed from the context window to make room. This message replaces it: \
quotes, a summary by a model, and a record of the work. What the person said wins over the record, and the record \
over the summary, which may be wrong."""


def create_summary_message(summary_text: str, clock: Clock | None = None, notes: str = "") -> Message:
    """Return the summary as a user message: prefix with the time, introduction, `notes`, a rule, the text."""
    head = f"{SUMMARY_PREFIX}, generated {format_local_time((clock or local_now)())}]\n{INTRODUCTION}\n"
    return Message(Role.USER, f"{head}\n{notes}\n\n---\n{summary_text}" if notes else f"{head}\n---\n{summary_text}")


def is_blank_summary(message: Message) -> bool:
    """True if there is no text, or none after the rule of a message made by `create_summary_message`."""
    _, rule, text = message.content.partition("\n---\n")
    return not (text if rule and message.content.startswith(SUMMARY_PREFIX) else message.content).strip()
