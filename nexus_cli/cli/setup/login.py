"""`nexus login PROVIDER`: store the provider's key, typed at a hidden prompt or piped in, or sign in to a subscription.

A key is never an argument: the shell's history and the process list would show it. `config.stored_keys` stores it; a
key in the environment takes precedence.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

from nexus_cli.cli.confirm import read_hidden_line
from nexus_cli.commands.verb import Act, Argument, Authority, Noun, Option, Source, Verb, print_act
from nexus_cli.config.load_settings import own_settings
from nexus_cli.config.setting_rules import is_key_name
from nexus_cli.config.stored_keys import store_key, stored_names
from nexus_cli.core.errors import NexusError, ProviderError, UsageError
from nexus_cli.provider.available_models import unnamed_model
from nexus_cli.provider.endpoint import (
    KEY_VARIABLES,
    is_provider_key,
    resolve_endpoint,
    stored_name,
)
from nexus_cli.provider.key_shapes import (
    LOGIN_NAMES,
    SHAPES,
    check_key_name,
    clean_key,
    find_provider,
    find_subscription,
)
from nexus_cli.provider.model_names import SUBSCRIPTIONS, split_key_name
from nexus_cli.provider.model_table import provider_of
from nexus_cli.reports.text.blocks import lay_out
from nexus_cli.ui.print.stream import QuietStream, Writable

MOST = 64 * 1024
"""Most bytes read from a pipe."""
MOST_COLUMNS = 88
ReadKey = Callable[[str], str]
"""Writes a prompt and returns the typed line, "" at Esc or the end of input."""


def login(
    source: Source,
    words: Annotated[list[str] | None, Argument("[PROVIDER]", f"One of {', '.join(LOGIN_NAMES)}.")] = None,
    key_name: Annotated[
        str, Option("NAME", "Name of this key, to select it with -m NAME:PROVIDER/MODEL.", "--as", least=0)
    ] = "",
) -> Act:
    """Store the key of PROVIDER, pasted at a hidden prompt or read from stdin.

    nexus uses the system's keyring if available, else a file that only you can read. A key in the environment takes
    precedence. PROVIDER may also be the name of a secret, such as HOOK_SECRET, for settings of services and hosts. For
    a subscription (github-copilot, chatgpt), nexus prints a code; enter it on a web page to sign in.
    """
    provider, *further = words or ("",)
    if further:
        why = "only PROVIDER is expected; as an argument, a key is visible in the shell's history and the process list"
        hint = "Run `nexus login PROVIDER` and paste or pipe the key. Revoke the key if you typed it here"
        raise UsageError("wrong usage", why, hint)
    if not provider:
        hint = f"Use `nexus login PROVIDER`. Providers: {', '.join(LOGIN_NAMES)}"
        raise UsageError("wrong usage", "the provider is missing", hint)
    check_key_name(key_name)
    if subscription := find_subscription(provider):
        return _sign_in(subscription, key_name)
    if is_key_name(provider) and not is_provider_key(provider) and not key_name:
        return _store_named(provider)
    name = find_provider(provider)
    if os.isatty(0):
        key = ask_key(name, QuietStream(2), read_hidden_line)
        if not key:
            raise UsageError("nothing was stored", "no valid key was given", f"Run `nexus login {name}` again")
    else:
        key = clean_key(name, _piped())
    place = store_key(stored_name(name, key_name), key)
    next_step = f"\nTo use this key: -m {key_name}:{name}/MODEL." if key_name else _what_next(name)
    line = f"The {SHAPES[name].title} key{key_name and f' `{key_name}`'} is stored in {place}.{next_step}"
    return print_act(line, stored_name(name, key_name))


def _sign_in(provider: str, key_name: str) -> Act:
    """Sign in to a subscription and store its login."""
    from nexus_cli.provider.litellm_backend import authenticator  # noqa: PLC0415  (slow, and few have a subscription)
    from nexus_cli.provider.subscription import log_in  # noqa: PLC0415

    title, stream = SUBSCRIPTIONS[provider], QuietStream(2)

    def show(address: str, code: str) -> None:
        _say(stream, f"Open {address} and enter the code {code} to sign in to {title}. Do not share the code.")
        _say(stream, "Waiting for the sign-in (Ctrl+C to cancel).")

    place = store_key(stored_name(provider, key_name), log_in(provider, authenticator(provider), show))
    model = f"{key_name}:{provider}/" if key_name else f"{provider}/"
    line = f"Signed in to {title}; the login is stored in {place}.\n"
    line += f"`nexus model list` shows its models; select one with -m {model}MODEL."
    return print_act(line, stored_name(provider, key_name))


def _store_named(name: str) -> Act:
    """Store a key that settings name, which may have any form."""
    key = (read_hidden_line(f"{name} (not shown): ") if os.isatty(0) else _piped()).strip()
    if not key or not key.isprintable():
        raise UsageError("nothing was stored", "no valid key was given", f"Run `nexus login {name}` again")
    return print_act(f"{name} is stored in {store_key(name, key)}.", name)


def _piped() -> str:
    text = sys.stdin.buffer.read(MOST).decode("utf-8", "replace")
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1:
        raise UsageError("stdin", f"has {len(lines)} lines, but a key is a single line", "Pipe only the key")
    return lines[0] if lines else ""


def _what_next(provider: str) -> str:
    """Return notes for the person after a key was stored: on a key in the environment, on the model."""
    notes = []
    if name := next((name for name in KEY_VARIABLES[provider] if os.environ.get(name)), ""):
        notes.append(f"{name} is set in the environment and takes precedence.")
    with suppress(NexusError):  # invalid settings must not prevent a login
        settings = own_settings()
        model = unnamed_model(settings)
        named = f"The model is {model}; to use another" if model else "Choose a model"
        notes.append(f"{named}: `nexus model use NAME`.")
    return "".join(f"\n{note}" for note in notes)


def ask_key(provider: str, stream: Writable, read_key: ReadKey) -> str:
    """Ask for the key of `provider` and return it; "" for an empty line, the end of input, or three invalid answers."""
    from nexus_cli.provider.key_check import KeyPrompt  # noqa: PLC0415  (few starts ask for a key)

    prompt = KeyPrompt(provider)
    _say(stream, prompt.intro)
    while prompt.left and (line := read_key("Key (not shown): ")).strip():
        key, text = prompt.read(line)
        if text:
            _say(stream, text)
        if key:
            return key
    return ""


def offer_login(model: str, stream: Writable, read_key: ReadKey) -> None:
    """Ask for the key of the provider of `model` if there is none, and store it; an empty line skips this."""
    provider = provider_of(model)
    if provider not in SHAPES or not lacks_key(model):
        return
    _say(stream, f"{model} needs a key for {SHAPES[provider].title}, and none was found.")
    if key := ask_key(provider, stream, read_key):
        key_name = split_key_name(model)[0]
        logout = f"nexus logout {provider}{f' --as {key_name}' if key_name else ''}"
        _say(stream, f"Key stored in {store_key(stored_name(provider, key_name), key)}; `{logout}` removes the key.")


def _say(stream: Writable, text: str) -> None:
    stream.write("\n".join([*lay_out([text], min(stream.width, MOST_COLUMNS)), ""]))


def lacks_key(model: str) -> bool:
    """True if requests to `model` need a key and none is set or stored. A keyring that refuses to return the key counts
    as having it."""
    provider = provider_of(model)
    key_name = split_key_name(model)[0]
    if stored_name(provider, key_name) in stored_names():
        return False
    try:
        resolve_endpoint(model)
    except ProviderError as error:
        return error.kind == "auth"
    return False


NOUN = Noun("login", "setup", (Verb(login, "", Authority.PERMITS, "nothing"),))
