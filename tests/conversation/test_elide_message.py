"""One message shortened: only if that is worth it."""

from __future__ import annotations

from nexus_cli.conversation.elide_message import MessageElider
from nexus_cli.core.elide import plain_marker
from nexus_cli.core.entry import ItemForm, WindowItem
from nexus_cli.core.message import Message, Role


def item(role: Role) -> WindowItem:
    message = Message(role, "some words of a long text " * 40)
    return WindowItem(entry=1, form=ItemForm.FULL, message=message, tokens=len(message.content))


def test_the_persons_words_are_cut_only_if_that_saves_more_than_it_is_worth() -> None:
    elider = MessageElider(len, lambda message, _: len(message.content), lambda _: plain_marker, lambda _: plain_marker)
    short = elider.elide(item(Role.USER), 400, 0)
    saved = item(Role.USER).tokens - short.tokens
    assert short.form is ItemForm.ELIDED and saved > 0
    assert elider.elide(item(Role.USER), 400, saved - 1) == short
    assert elider.elide(item(Role.USER), 400, saved) == item(Role.USER)
    assert elider.elide(item(Role.ASSISTANT), 400, saved).tokens == short.tokens, "only words of the person are"
