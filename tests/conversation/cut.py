"""Cut a conversation down as a session does: an epoch with the head and the drops of its truncator."""

from __future__ import annotations

from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.window_truncation import WindowTruncator
from nexus_cli.core.entry import Drop


def truncate(truncator: WindowTruncator, conversation: Conversation, available: int) -> list[Drop]:
    """Begin an epoch that fits `available` counted tokens, and return its drops."""
    head, drops = truncator.cut(conversation, available)
    conversation.rewrite(head, "truncation", drops)
    return drops
