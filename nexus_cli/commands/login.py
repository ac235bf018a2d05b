"""`/login`: store the key of a provider and use it at once."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated

from nexus_cli.commands.command import Choice, CommandContext
from nexus_cli.commands.verb import Act, Argument, Authority, Noun, Verb, print_act
from nexus_cli.config.stored_keys import store_key
from nexus_cli.core.errors import NexusError
from nexus_cli.core.redact_secrets import protect_secret
from nexus_cli.provider.endpoint import KEY_VARIABLES, key_variable, login_command
from nexus_cli.provider.key_shapes import SHAPES, find_provider, find_subscription
from nexus_cli.provider.model_table import provider_of


async def log_in(
    context: CommandContext, name: Annotated[str, Argument("PROVIDER", "The provider of the key.")] = ""
) -> Act:
    """Store an API key, and use it from now on.

    Without PROVIDER, choose one from a list. The key is not shown; Esc cancels. Like `nexus login`, /login stores the
    key in the system's keyring, else in a file that only you can read.
    """
    provider = _named_provider(name) if name else await _choose_provider(context)
    key = await _ask_key(context, provider) if provider else ""
    if not key:
        return print_act("No key was stored.")
    place = await asyncio.to_thread(store_key, key_variable(provider), key)
    context.say(f"The {SHAPES[provider].title} key is stored in {place}. Nexus uses it from now on.")
    protect_secret(key, key_variable(provider))
    for name in KEY_VARIABLES[provider]:
        if (former := os.environ.pop(name, None)) is not None:
            protect_secret(former.strip(), name)
            context.say(f"{name} is ignored in this session. Unset the variable, or the next start will use it again.")
    hint = "/continue resumes the interrupted turn." if context.session.is_open() else ""
    return print_act(hint, provider)


def _named_provider(words: str) -> str:
    """Return the provider that `words` name; raise `NexusError("usage", ...)` if they name none."""
    if subscription := find_subscription(words):
        hint = f"Run `{login_command(subscription)}` in another terminal, then choose one of its models with /model"
        raise NexusError("usage", "/login", "you cannot sign in to a subscription inside a session", hint)
    return find_provider(words)


async def _choose_provider(context: CommandContext) -> str:
    """Let the person choose a provider, "" for none; that of the session's model comes first."""
    own_provider = provider_of(context.session.model)
    names = sorted(SHAPES, key=lambda name: name != own_provider)
    choices = [Choice(name, SHAPES[name].title, SHAPES[name].page) for name in names]
    return await context.choose("Which provider is the key from?", choices) or ""


async def _ask_key(context: CommandContext, provider: str) -> str:
    """Prompt for the key, "" for none."""
    from nexus_cli.provider.key_check import KeyPrompt  # noqa: PLC0415  (few sessions ask for a key)

    prompt = KeyPrompt(provider)
    context.say(prompt.intro)
    while prompt.left:
        line = await context.ask_hidden(f"{SHAPES[provider].title} key (not shown, Esc cancels)")
        if not (line or "").strip():
            return ""
        key, text = await asyncio.to_thread(prompt.read, line or "")
        if text:
            context.say(text.replace("nexus login", "/login"))
        if key:
            return key
    return ""


NOUN = Noun(
    "login",
    "setup",
    (Verb(log_in, authority=Authority.PERMITS, complete=tuple(SHAPES)),),
    aliases=("connect",),
    is_idle=True,
)
