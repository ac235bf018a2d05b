"""Ask in a terminal for a key, which is not shown, and offer to store the one that a model lacks."""

from __future__ import annotations

from collections.abc import Callable

from nexus_cli.cli.confirm import read_hidden_line
from nexus_cli.config.stored_keys import store_key, stored_names
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.shared_types import TakeText
from nexus_cli.provider.endpoint import resolve_endpoint, stored_name
from nexus_cli.provider.key_shapes import SHAPES
from nexus_cli.provider.model_names import split_key_name
from nexus_cli.provider.model_table import provider_of
from nexus_cli.reports.text.blocks import lay_out
from nexus_cli.ui.print.stream import QuietStream

MAX_COLUMNS = 88


def ask_hidden(text: str, name: str) -> str:
    """Print a text, "" for none, and ask for a line that is not shown; return "" at Esc or the end of input."""
    if text:
        _print_to_terminal(text)
    return read_hidden_line(f"{name} (not shown): ")


def offer_login(model: str) -> None:
    """Ask for the key of the provider of `model` if there is none, and store it; an empty line skips this."""
    provider = provider_of(model)
    if provider in SHAPES and lacks_key(model):
        _print_to_terminal(f"{model} needs a key for {SHAPES[provider].title}, and none was found.")
        store_typed_key(provider, ask_hidden, _print_to_terminal, split_key_name(model)[0])


def store_typed_key(provider: str, ask: Callable[[str, str], str], say: TakeText, key_name: str = "") -> bool:
    """Ask for the key of a provider and store it; return False without one."""
    from nexus_cli.provider.key_check import ask_key  # noqa: PLC0415  (few starts ask for a key)

    key, key_note = ask_key(provider, ask)
    if key_note:
        say(key_note)
    if key:
        logout = f"nexus logout {provider}{f' --as {key_name}' if key_name else ''}"
        say(f"Key stored in {store_key(stored_name(provider, key_name), key)}; `{logout}` removes the key.")
    return bool(key)


def _print_to_terminal(text: str) -> None:
    stream = QuietStream(2)
    stream.write("\n".join([*lay_out([text], min(stream.width, MAX_COLUMNS)), ""]))


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
