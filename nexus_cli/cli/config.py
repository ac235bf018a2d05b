"""`nexus config show | get | set | unset | path | edit`: show and change the settings."""

from __future__ import annotations

import os
import re
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from nexus_cli.cli.command_options import Json, working_folder
from nexus_cli.cli.confirm import can_confirm, confirm
from nexus_cli.cli.print_report import print_json, print_text, print_value
from nexus_cli.config.paths import defaults_dir, places, project_root
from nexus_cli.config.project_settings import load_settings_in
from nexus_cli.config.setting_rules import RULES, TABLES
from nexus_cli.config.settings import (
    LoadedSettings,
    quote_part,
    rule_for,
    shown_value,
    split_key,
    unknown_key_error,
)
from nexus_cli.core.errors import NexusError
from nexus_cli.reports.settings import toml_literal
from nexus_cli.ui.print.stream import write_stderr_line

NEGATIVE = re.compile(r"-[\d.][\w.]*")
app = typer.Typer(add_completion=False, rich_markup_mode=None, help="Show and change the settings.")


def _load() -> LoadedSettings:
    loaded = load_settings_in(project_root(working_folder()), places(), defaults_dir(), os.environ)
    for notice in loaded.settings.notices:
        write_stderr_line(f"nexus: {notice}")
    return loaded


@app.command("show")
def show_settings(
    origin: Annotated[bool, typer.Option("--origin", help="Also print where each value comes from.")] = False,
    json: Json = False,
) -> int:
    """Print every setting that has a value."""
    loaded = _load()
    if json:
        settings: dict[str, Any] = {}
        for key, value in loaded.values.items():
            settings[key] = {"value": value, "origin": loaded.origins[key]}
        print_json({"version": 1, "settings": settings})
        return 0
    lines = []
    for key, value in loaded.values.items():
        line = f"{key} = {toml_literal(shown_value(key, value))}"
        lines.append(f"{line:<58}  # {loaded.origins[key]}" if origin else line)
    print_text("\n".join(lines))
    return 0


@app.command("get")
def get(key: Annotated[str, typer.Argument(help="A dotted key such as limits.max_steps.")]) -> int:
    """Print the value of one setting."""
    parts = split_key(key)
    if len(parts) == 1 and parts[0] in TABLES:
        keys = [name for name in RULES if name.startswith(f"{parts[0]}.")] or [f"{parts[0]}.NAME"]
        why = "it is a table, not a single setting"
        raise NexusError("config", key, why, f"Name one: {', '.join(keys)}")
    if rule_for(parts) is None:
        raise unknown_key_error(key)
    value = _load().values.get(".".join(quote_part(part) for part in parts))
    if value is None:
        raise NexusError("config", key, "has no value", f"nexus config set {key} VALUE sets one")
    value = shown_value(key, value)
    print_value(toml_literal(value) if isinstance(value, bool | tuple) else str(value))
    return 0


class FlagCommand(TyperCommand):
    """A command whose options are all flags, so that a negative number is an argument."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """If a word is a negative number, put the flags first and all other words after `--`."""
        if "--" not in args and any(map(NEGATIVE.fullmatch, args)):
            flags = [word for word in args if word.startswith("-") and not NEGATIVE.fullmatch(word)]
            args = [*flags, "--", *(word for word in args if word not in flags)]
        return super().parse_args(ctx, args)


@app.command("set", cls=FlagCommand)
def set_setting(
    key: Annotated[str, typer.Argument(help="A dotted key such as limits.max_steps.")],
    value: Annotated[str | None, typer.Argument(help="The new value.", show_default=False)] = None,
    unset: Annotated[
        bool, typer.Option("--unset", help="Remove the setting, so that its default applies again.")
    ] = False,
) -> int:
    """Write one setting into the personal config.toml; its comments stay."""
    if unset == (value is not None):
        why = "a value and --unset cannot be combined" if unset else "the value is missing"
        raise NexusError("usage", f"config set {key}", why, "Give a value, or --unset to remove the setting")
    from nexus_cli.config.settings_file import write_setting  # noqa: PLC0415  (imports tempfile; only for writing)

    write_setting(places(), defaults_dir(), key, value)
    path, name = str(places().settings), ".".join(quote_part(part) for part in split_key(key))
    write_stderr_line(f"nexus: {'removed' if unset else 'set'} {key} in {path}.")
    loaded = _load()
    if (origin := loaded.origins.get(name, path)) not in (path, "default"):
        write_stderr_line(f"nexus: here {origin} overrides it: {shown_value(name, loaded.values[name])}.")
    return 0


@app.command("unset")
def unset_setting(key: Annotated[str, typer.Argument(help="A dotted key such as limits.max_steps.")]) -> int:
    """Remove one setting from the personal config.toml, so that its default applies again."""
    return set_setting(key, None, unset=True)


@app.command("path")
def path() -> int:
    """Print where the personal config.toml lies, whether it is there or not."""
    print_value(str(places().settings))
    return 0


@app.command("edit")
def edit() -> int:
    """Edit the personal config.toml with $VISUAL or $EDITOR. A file that cannot be read is not saved."""
    named = any(os.environ.get(name, "").strip() for name in ("VISUAL", "EDITOR"))
    if not named and not (os.isatty(0) and os.isatty(1)):
        why = "there is no terminal, and neither VISUAL nor EDITOR names an editor"
        raise NexusError("usage", "config edit", why, "nexus config set KEY VALUE changes one setting")
    from nexus_cli.cli.edit_config import edit_settings  # noqa: PLC0415  (only for writing)

    changed = edit_settings(places(), defaults_dir(), os.environ, _again)
    write_stderr_line(f"nexus: {places().settings} was written." if changed else "nexus: nothing was changed.")
    return 0


def _again(error: NexusError) -> bool:
    """Ask the person whether to edit the text again; False without a terminal."""
    if not can_confirm():
        return False
    write_stderr_line(error.line)
    return confirm("Edit it again? (no keeps the file as it was)", "y")
