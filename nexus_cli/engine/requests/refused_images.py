"""Take images out of the window that the model does not take: a provider would refuse every later request too."""

from __future__ import annotations

from dataclasses import replace

from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.rewrite import Rewrite
from nexus_cli.core.entry import Cause, Drop, ItemForm, WindowItem
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.event import Notice
from nexus_cli.core.image_check import NO_IMAGES
from nexus_cli.core.message import Role
from nexus_cli.engine.requests.engine import Engine

REFUSED = "refused"
"""Cause of the epoch."""
STATUSES = (400, 413, 415, 422)
"""Statuses of a request that the provider will never take."""


def draft_without_images(engine: Engine, error: ProviderError | None = None) -> Rewrite | None:
    """Return the rewrite that takes out the images that this model has not answered yet, with a drop for each message
    of them. None if the error cannot be about images, or if there are none. Without an error the model's server states
    that it takes none."""
    conversation = engine.conversation
    if error and not _is_about_images(error):
        return None
    since = conversation.epoch.base if conversation.epoch.cause == "model" else 0  # another model answered before
    replies = (item.entry for item in conversation.items if item.message.role is Role.ASSISTANT)
    answered = max((entry for entry in replies if entry > since), default=0)
    new = [item for item in conversation.items if item.message.parts and item.entry > answered]
    if not new:
        return None
    drops, without = list[Drop](), dict[int, WindowItem]()
    for item in new:
        name = conversation.log.next_drop()
        why = "rejected by the provider" if error else NO_IMAGES
        without[item.entry] = short = _without_images(engine.context, item, f"drop {name}: {_names(item)}; {why}")
        label = f"images of a message: {_names(item)}" if len(item.message.parts) > 1 else f"image {_names(item)}"
        span = item.entry, item.entry
        drops.append(Drop(name, label, item.tokens - short.tokens, Cause.REFUSED, conversation.now(), span))
    head = [without.get(item.entry, item) for item in conversation.arranged]
    epoch = conversation.make_epoch(head, REFUSED)
    if error is None:
        return Rewrite(epoch, drops)
    names = ", ".join(map(_names, new))
    notice = Notice(f"the provider rejected the request ({error.why}); nexus retries without {names}")
    return Rewrite(epoch, drops, price=engine.price_epoch(epoch), notice=notice)


def _is_about_images(error: ProviderError) -> bool:
    """Return True for an error that images may have caused."""
    is_too_long = error.kind == "overflow" and (error.status != 413 or error.limit or error.counted)
    return error.status in STATUSES and error.kind in ("provider", "overflow") and not is_too_long


def _without_images(context: ContextManager, item: WindowItem, reason: str) -> WindowItem:
    line = f"[not shown, {reason}]"
    text = f"{item.message.content}\n\n{line}" if item.message.content else line
    message = replace(item.message, content=text, parts=())
    tokens = context.measure(message, item.preamble)
    return replace(item, form=ItemForm.ELIDED, message=message, tokens=tokens)


def _names(item: WindowItem) -> str:
    return ", ".join(item.message.image_names)
