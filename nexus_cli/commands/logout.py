"""Remove a key that a login stored."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated

from nexus_cli.commands.verb import Act, Authority, Noun, Source, Verb, print_act
from nexus_cli.config.setting_rules import is_key_name
from nexus_cli.config.stored_keys import remove_key, stored_names
from nexus_cli.core.errors import UsageError
from nexus_cli.core.option import Argument, Option
from nexus_cli.provider.endpoint import KEY_VARIABLES, is_provider_key, key_variable, stored_name
from nexus_cli.provider.key_shapes import LOGIN_NAMES, SHAPES, check_key_name, find_provider, find_subscription
from nexus_cli.provider.model_names import SUBSCRIPTIONS


def _complete_stored(source: Source) -> Sequence[str]:
    """Return the providers with a stored key."""
    stored = {name.partition("@")[0] for name in stored_names()}
    return [name for name in LOGIN_NAMES if key_variable(name.replace("-", "_")) in stored]


def logout(
    source: Source,
    provider: Annotated[str, Argument("PROVIDER", f"One of {', '.join(LOGIN_NAMES)}.", least=0)],
    key_name: Annotated[str, Option("NAME", "Name of the key, if you stored several.", "--as", least=0)] = "",
) -> Act:
    """Remove the stored key of PROVIDER.

    A key in the environment is not removed.
    """
    check_key_name(key_name)
    subscription = find_subscription(provider)
    if not subscription and is_key_name(provider) and not is_provider_key(provider) and not key_name:
        if not (place := remove_key(provider)):
            raise UsageError(f"no key {provider} is stored", "there is nothing to remove")
        return print_act(f"{provider} was removed from {place}.", provider)
    name = subscription or find_provider(provider)
    title, kind = (SUBSCRIPTIONS[name], "login") if subscription else (SHAPES[name].title, "key")
    key_text = f" `{key_name}`" if key_name else ""
    place = remove_key(stored_name(name, key_name))
    if not place:
        logins = sorted(stored_login.partition("@") for stored_login in stored_names())
        stored = [
            f"{login_name}{at and ' --as '}{of}"
            for login_name in LOGIN_NAMES
            for variable, at, of in logins
            if variable == key_variable(login_name.replace("-", "_"))
        ]
        hint = f"Stored: {', '.join(stored)}" if stored else "No provider key is stored"
        raise UsageError(f"no {title} {kind}{key_text} is stored", "there is nothing to remove", hint)
    variable = "" if key_name else next((key for key in KEY_VARIABLES.get(name, ()) if os.environ.get(key)), "")
    still = f"\n{variable} is still set in the environment." if variable else ""
    return print_act(f"The {title} {kind}{key_text} was removed from {place}.{still}", stored_name(name, key_name))


NOUN = Noun(
    "logout",
    "setup",
    (Verb(logout, "", Authority.PERMITS, "nothing", complete=_complete_stored),),
)
