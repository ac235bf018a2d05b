"""The settings as a commented TOML file, made from their declarations."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from nexus_cli.config.setting_rules import Setting
from nexus_cli.config.setting_tables import FIXED_TABLES, NAMED_TABLES, OPEN_TABLES, TABLE_HELP

WIDTH = 118
HEAD = """\
# All nexus settings with their defaults. Put your own into config.toml in the folder that `nexus config path`
# prints, or use `nexus config set KEY VALUE`. A key after `#` has no value by default."""
TEMPLATE_HEAD = "# Your settings. Lines that begin with `#` are comments: remove the `#` to set a value of your own."


def settings_text(head: str = HEAD, mark: str = "") -> str:
    """Return every setting with its default behind `mark`, below a comment that says what it does."""
    top = FIXED_TABLES[""]
    plain = {name: top_setting for name, top_setting in top.items() if not isinstance(top_setting.example, tuple)}
    blocks = [
        [head],
        *([*_comment(top_setting.help), _assign(name, top_setting, mark)] for name, top_setting in plain.items()),
    ]
    for table, settings in FIXED_TABLES.items():
        if table:
            blocks.append([*_comment(TABLE_HELP.get(table, "")), f"[{table}]", *_list(settings, mark)])
    for heading, example, text in (
        (*top_setting.example, top_setting.help) for name, top_setting in top.items() if name not in plain
    ):
        blocks.append(
            [*_comment(text), f"# {heading}", *(f"# {key} = {toml_literal(example[key])}" for key in example)]
        )
    for table, setting in OPEN_TABLES.items():
        values = [f"{mark}{name} = {toml_literal(value)}" for name, value in setting.default.items()]
        blocks.append([*_comment(setting.help), f"[{table}]", *values])
    for table, named_table in NAMED_TABLES.items():
        blocks.append(
            [*_comment(named_table.help), f"# [{table}.{named_table.name}]", *_list(named_table.settings, mark)]
        )
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def settings_template() -> str:
    """Return the settings with every value commented out, so that the defaults apply."""
    return settings_text(TEMPLATE_HEAD, "# ")


def toml_literal(value: str | bool | int | float | Sequence[Any]) -> str:
    """Return a value as TOML."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, Sequence):
        return f"[{', '.join(map(toml_literal, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _list(settings: Mapping[str, Setting], mark: str) -> list[str]:
    return [
        line for name, setting in settings.items() for line in (*_comment(setting.help), _assign(name, setting, mark))
    ]


def _assign(name: str, setting: Setting, mark: str) -> str:
    if setting.default is None:
        return f"# {name} = {toml_literal(setting.example)}"
    return f"{mark}{name} = {toml_literal(setting.default)}"


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)]
