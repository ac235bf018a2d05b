"""Take images out of the window that the model does not take: a provider would refuse every later request too."""

from __future__ import annotations

from dataclasses import replace

from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.groups import flatten
from nexus_cli.core.entry import Cause, Drop, ItemForm, WindowItem
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.message import Role
from nexus_cli.engine.requests.control import Control

REFUSED = "refused"
"""Cause of the epoch."""
STATUSES = (400, 413, 415, 422)
"""Statuses of a request that the provider will never take."""


def take_out_images(context: ContextManager, control: Control, error: ProviderError | None = None) -> bool:
    """Begin an epoch without the images that this model has not answered yet, with a drop for each message of them;
    tell the person. False if the error cannot be about images, or if there are none. Without an error its server states
    that it takes none."""
    conversation = context.conversation
    if error and not _is_about_images(error):
        return False
    since = conversation.epoch.base if conversation.epoch.cause == "model" else 0  # another model answered before
    replies = (item.entry for item in conversation.items if item.message.role is Role.ASSISTANT)
    answered = max((entry for entry in replies if entry > since), default=0)
    new = [item for item in conversation.items if item.message.parts and item.entry > answered]
    if not new:
        return False
    drops, without = list[Drop](), dict[int, WindowItem]()
    for item in new:
        name = conversation.log.next_drop()
        why = "the provider refused the request with it" if error else "this model takes no images"
        without[item.entry] = short = _without_images(context, item, f"drop {name}: {_names(item)}; {why}")
        what = f"images of a message: {_names(item)}" if len(item.message.parts) > 1 else f"image {_names(item)}"
        span = item.entry, item.entry
        drops.append(Drop(name, what, item.tokens - short.tokens, Cause.REFUSED, conversation.now(), span))
    conversation.rewrite([without.get(item.entry, item) for item in flatten(conversation.groups())], REFUSED, drops)
    for drop in drops:
        control.emit_drop(drop)
    if error:
        names = ", ".join(map(_names, new))
        control.emit_notice(f"the provider refused the request with {names} ({error.why}): it is sent again without")
    return True


def _is_about_images(error: ProviderError) -> bool:
    """Return True for an error that images may have caused."""
    is_too_long = error.kind == "overflow" and (error.status != 413 or error.limit or error.counted)
    return error.status in STATUSES and error.kind in ("provider", "overflow") and not is_too_long


def _without_images(context: ContextManager, item: WindowItem, what: str) -> WindowItem:
    line = f"[not shown, {what}]"
    text = f"{item.message.content}\n\n{line}" if item.message.content else line
    message = replace(item.message, content=text, parts=())
    tokens = context.measure(message, item.preamble)
    return replace(item, form=ItemForm.ELIDED, message=message, tokens=tokens)


def _names(item: WindowItem) -> str:
    return ", ".join(part.name or part.media_type for part in item.message.parts)
