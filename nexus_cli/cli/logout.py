"""`nexus logout PROVIDER`: remove a key that `nexus login` stored."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from nexus_cli.cli.print_report import print_text
from nexus_cli.config.setting_rules import is_key_name
from nexus_cli.config.stored_keys import remove_key, stored_names
from nexus_cli.core.errors import NexusError
from nexus_cli.provider.endpoint import KEY_VARIABLES, is_provider_key, key_variable
from nexus_cli.provider.key_shapes import SHAPES, find_provider

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("logout")
def logout(
    provider: Annotated[str, typer.Argument(metavar="PROVIDER", help=f"One of {', '.join(SHAPES)}.")],
) -> int:
    """Remove the stored key of PROVIDER. One in the environment is not touched."""
    if is_key_name(provider) and not is_provider_key(provider):
        if not (place := remove_key(provider)):
            raise NexusError("usage", f"no key {provider} is stored", "there is nothing to remove")
        print_text(f"{provider} was removed from {place}.")
        return 0
    name = find_provider(provider)
    title = SHAPES[name].title
    place = remove_key(key_variable(name))
    if not place:
        stored = [one for one in SHAPES if key_variable(one) in stored_names()]
        hint = f"Stored keys: {', '.join(stored)}" if stored else "No key is stored"
        raise NexusError("usage", f"no {title} key is stored", "there is nothing to remove", hint)
    variable = next((one for one in KEY_VARIABLES[name] if os.environ.get(one)), "")
    print_text(
        f"The {title} key was removed from {place}."
        + (f"\n{variable} is still set in the environment." if variable else "")
    )
    return 0
