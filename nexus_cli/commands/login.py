"""Store the key of a provider, typed at a hidden prompt or piped in, or sign in to a subscription.

A key is never an argument: the shell's history and the process list would show it. `config.stored_keys` stores it; in a
session it counts at once, elsewhere a key in the environment takes precedence.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Annotated

from nexus_cli.commands.verb import Act, Authority, Noun, Source, Verb, print_act
from nexus_cli.config.load_settings import own_settings
from nexus_cli.config.setting_rules import is_key_name
from nexus_cli.config.stored_keys import store_key
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.option import Argument, Option
from nexus_cli.core.redact_secrets import protect_secret
from nexus_cli.provider.available_models import unnamed_model
from nexus_cli.provider.endpoint import KEY_VARIABLES, is_provider_key, key_variable, login_command, stored_name
from nexus_cli.provider.key_shapes import (
    LOGIN_NAMES,
    SHAPES,
    check_key_name,
    clean_key,
    find_provider,
    find_subscription,
)
from nexus_cli.provider.model_names import SUBSCRIPTIONS
from nexus_cli.provider.model_table import provider_of

NOT_STORED = "No key was stored."
LONGEST = 1 << 16
"""Most bytes of a piped key."""


def login(
    source: Source,
    words: Annotated[list[str] | None, Argument("[PROVIDER]", f"One of {', '.join(LOGIN_NAMES)}.")] = None,
    key_name: Annotated[
        str, Option("NAME", "Name of this key, to select it with -m NAME:PROVIDER/MODEL.", "--as", least=0)
    ] = "",
) -> Act:
    """Store the API key of a provider.

    Paste the key at a hidden prompt; a shell also reads it from stdin. nexus uses the system's keyring if available,
    else a file that only you can read. A key in the environment takes precedence, but a session uses the new key from
    now on. In a session, without PROVIDER, choose one from a list. PROVIDER may also be the name of a secret, such as
    HOOK_SECRET, for settings of services and hosts. For a subscription (github-copilot, chatgpt), nexus prints a code
    in a shell; enter it on a web page to sign in.
    """
    provider = " ".join(words or ()) or _choose_provider(source)
    check_key_name(key_name)
    if not provider:
        return print_act(NOT_STORED)
    if subscription := find_subscription(provider):
        return _sign_in(source, subscription, key_name)
    if is_key_name(provider) and not is_provider_key(provider) and not key_name:
        return _store_named(source, provider)
    try:
        name = find_provider(provider)
    except NexusError as error:
        if source.live or not (words or ())[1:]:
            raise
        why = "only PROVIDER is expected; as an argument, a key is visible in the shell's history and the process list"
        hint = "Run `nexus login PROVIDER` and paste or pipe the key. Revoke the key if you typed it here"
        raise UsageError("wrong usage", why, hint) from error
    key, key_note = _ask_key(source, name) if source.ask_hidden else (clean_key(name, _read_piped(source)), "")
    if not key:
        return _report_none(source, name, key_note)
    stored = stored_name(name, key_name)
    line = f"The {SHAPES[name].title} key{key_name and f' `{key_name}`'} is stored in {store_key(stored, key)}."
    if key_name:
        then = [f"To use this key: {'/model' if source.live else '-m'} {key_name}:{name}/MODEL."]
    else:
        then = list(_use_now(source, name, key)) if source.live else list(_describe_next(name))
    return print_act("\n".join([*filter(None, [key_note]), line, *then]), stored)


def _choose_provider(source: Source) -> str:
    """Let the person of a session choose a provider, "" for none; that of the session's model comes first."""
    if source.live is None:
        hint = f"Use `nexus login PROVIDER`. Providers: {', '.join(LOGIN_NAMES)}"
        raise UsageError("wrong usage", "the provider is missing", hint)
    own_provider = provider_of(source.live.model)
    names = sorted(SHAPES, key=lambda name: name != own_provider)
    rows = [(name, SHAPES[name].title, SHAPES[name].page) for name in names]
    return source.choose("Which provider is the key from?", rows)


def _ask_key(source: Source, provider: str) -> tuple[str, str]:
    from nexus_cli.provider.key_check import ask_key  # noqa: PLC0415  (few processes ask for a key)

    def ask(text: str, prompt: str) -> str:
        assert source.ask_hidden is not None
        return source.ask_hidden(text.replace("nexus login", "/login") if source.live else text, prompt)

    return ask_key(provider, ask)


def _read_piped(source: Source) -> str:
    from nexus_cli.tools.files import decode_stream  # noqa: PLC0415  (the tools, where a key is piped)

    data = source.read_raw(LONGEST + 1)
    read = decode_stream(data, cut=False)
    if read is None or len(data) > LONGEST or "\0" in read.plain:
        raise UsageError("stdin", "is not a key", "Pipe only the key")
    lines = [line for line in read.plain.splitlines() if line.strip()]
    if len(lines) > 1:
        raise UsageError("stdin", f"has {len(lines)} lines, but a key is a single line", "Pipe only the key")
    return lines[0] if lines else ""


def _report_none(source: Source, name: str, key_note: str = "") -> Act:
    """Return the report of a login that stored nothing; in a shell raise `UsageError`."""
    if source.live:
        return print_act(key_note or NOT_STORED)
    if key_note:
        source.say(key_note)
    raise UsageError("nothing was stored", "no valid key was given", f"Run `nexus login {name}` again")


def _sign_in(source: Source, provider: str, key_name: str) -> Act:
    """Sign in to a subscription and store its login."""
    if source.live:
        hint = f"Run `{login_command(provider)}` in another terminal, then choose one of its models with /model"
        raise UsageError("/login", "you cannot sign in to a subscription inside a session", hint)
    from nexus_cli.provider.litellm_backend import authenticator  # noqa: PLC0415  (slow, and few have a subscription)
    from nexus_cli.provider.subscription import log_in  # noqa: PLC0415

    title = SUBSCRIPTIONS[provider]

    def show(address: str, code: str) -> None:
        source.say(f"open {address} and enter the code {code} to sign in to {title}. Do not share the code.")
        source.say("waiting for the sign-in (Ctrl+C to cancel).")

    place = store_key(stored_name(provider, key_name), log_in(provider, authenticator(provider), show))
    model = f"{key_name}:{provider}/" if key_name else f"{provider}/"
    line = f"Signed in to {title}; the login is stored in {place}.\n"
    line += f"`nexus model list` shows its models; select one with -m {model}MODEL."
    return print_act(line, stored_name(provider, key_name))


def _store_named(source: Source, name: str) -> Act:
    """Store a key that settings name, which may have any form."""
    key = (source.ask_hidden("", name) if source.ask_hidden else _read_piped(source)).strip()
    if not key or not key.isprintable():
        return _report_none(source, name)
    protect_secret(key, name)
    return print_act(f"{name} is stored in {store_key(name, key)}.", name)


def _describe_next(provider: str) -> Iterator[str]:
    """Yield notes for the person after a key was stored: on a key in the environment, on the model."""
    if name := next((name for name in KEY_VARIABLES[provider] if os.environ.get(name)), ""):
        yield f"{name} is set in the environment and takes precedence."
    with suppress(NexusError):  # invalid settings must not prevent a login
        model = unnamed_model(own_settings())
        advice = f"The model is {model}; to use another" if model else "Choose a model"
        yield f"{advice}: `nexus model use NAME`."


def _use_now(source: Source, provider: str, key: str) -> Iterator[str]:
    """Let the open session use a key that was stored, and yield notes about that."""
    yield "This session uses the key from now on."
    protect_secret(key, key_variable(provider))
    for name in KEY_VARIABLES[provider]:
        if (former := os.environ.pop(name, None)) is not None:
            protect_secret(former.strip(), name)
            yield f"{name} is ignored in this session. Unset the variable, or the next start will use it again."
    if source.live and source.live.is_open():
        yield "/continue resumes the interrupted turn."


def _complete_providers(source: Source) -> Sequence[str]:
    return tuple(SHAPES) if source.live else LOGIN_NAMES


NOUN = Noun(
    "login",
    "setup",
    (Verb(login, "", Authority.PERMITS, "nothing", complete=_complete_providers),),
    aliases=("connect",),
    is_idle=True,
)
