"""The settings: where each comes from, and how one is changed."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict, cast

from nexus_cli.commands.arguments import SessionSource, apply_settings, show_report
from nexus_cli.commands.command import CommandContext
from nexus_cli.commands.verb import Act, ActReport, Authority, Noun, Report, Source, Text, Verb, report_act, report_line
from nexus_cli.config.load_settings import LoadedSettings, join_key, rule_for, split_key, unknown_key_error
from nexus_cli.config.paths import places, project_root, with_tilde
from nexus_cli.config.project_settings import load_settings_in
from nexus_cli.config.setting_tables import SETTINGS
from nexus_cli.config.settings_file import parse_value, write_setting
from nexus_cli.config.settings_text import toml_literal
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.json_value import JsonObject, VersionedReport
from nexus_cli.core.option import Argument, Option
from nexus_cli.core.redact_secrets import redact
from nexus_cli.reports.text.blocks import Blocks, Drawn, Paragraph
from nexus_cli.reports.text.command_names import name_commands
from nexus_cli.text.cells import cells
from nexus_cli.text.terminal_sanitizer import sanitize


class SettingObject(TypedDict):
    value: Any
    origin: str


class ConfigReport(VersionedReport):
    """Settings that have a value."""

    settings: dict[str, SettingObject]
    path: NotRequired[str]
    """Of an open session: the personal file."""
    shows_origin: NotRequired[bool]
    """True if the text names the origin of every setting."""


def settings_text(value: JsonObject, width: int) -> Blocks:
    """List each setting as TOML, with its origin if that is asked for; in a session unless it is the package."""
    path = value["path"]
    for key, setting in value["settings"].items():
        is_named = value["shows_origin"] or (path and setting["origin"] != "default")
        text = sanitize(f"{key} = {toml_literal(setting['value'])}")
        line = f"{text:<58}  # {sanitize(setting['origin'])}" if is_named else text
        yield Drawn(line) if cells(line) <= width else Paragraph(line, "    ", "")
    if path:
        yield from ["", name_commands(f"Your file: {path}. nexus config set KEY VALUE changes a setting.")]


Key = Annotated[str, Argument("KEY", "A dotted key such as limits.max_steps.")]
Name = Annotated[str, Argument("[NAME]", "Show only settings whose key contains this text.")]


def _load(source: Source) -> LoadedSettings:
    loaded = load_settings_in(project_root(source.folder()))
    for notice in () if source.live else loaded.settings.notices:
        source.say(notice)
    return loaded


def show_settings(
    source: Source,
    name: Name = "",
    origin: Annotated[bool, Option(None, "Also print where each value comes from.")] = False,
) -> Report[Annotated[Any, ConfigReport]]:
    """Print all settings that have a value. In a session, also print where values other than defaults come from."""
    loaded = _load(source)
    settings = {
        redact(key): {"value": _redact_value(value), "origin": loaded.origins[key]}
        for key, value in loaded.values.items()
        if name.casefold() in key
    }
    if not settings:
        hint = "In a shell: nexus config edit" if name == "edit" else "`nexus docs settings` describes all settings"
        raise UsageError(f"config {name}", "no matching setting has a value", hint)
    value = {"version": 1, "settings": settings}
    if source.is_json:
        return Report("settings", value)
    for setting in settings.values() if source.live else ():
        setting["origin"] = with_tilde(str(setting["origin"]))
    path = with_tilde(places().settings) if source.live else ""
    return Report("settings", {**value, "shows_origin": origin, "path": path}, uncut=True)


def _redact_value(value: Any) -> Any:
    if isinstance(value, list):
        return [*map(_redact_value, value)]
    return redact(value) if isinstance(value, str) else value


def get_setting(source: Source, key: Key) -> Report[ConfigReport]:
    """Print the value of one setting."""
    parts = split_key(key)
    if rule_for(parts) is None:
        raise unknown_key_error(key)
    loaded, name = _load(source), join_key(parts)
    value = loaded.values.get(name)
    if value is None:
        raise NexusError("config", key, "has no value", f"To set it: nexus config set {key} VALUE")
    text = {"text": f"{toml_literal(value) if isinstance(value, bool | tuple) else value}\n"}
    config_report: ConfigReport = {"version": 1, "settings": {name: {"value": value, "origin": loaded.origins[name]}}}
    return Report("text", config_report if source.is_json else cast("ConfigReport", text))


def set_setting(
    source: Source,
    key: Key,
    value: Annotated[str, Argument("VALUE", "The new value.", is_text=True, least=0)],
) -> Act:
    """Write one setting to the personal config.toml and keep its comments. In a session the change applies at once;
    during a turn, it applies after /reload."""
    value = _strip_sign(value) if source.live else value
    if value and split_key(key)[0] == "rules":
        _refuse_wrong_rules(key, value)
    return _write(source, key, value)


def _write(source: Source, key: str, value: str | None) -> Act:
    """Write a setting, or remove it if `value` is None; return the report of that."""
    is_changed = write_setting(places(), key, value)
    path, name = str(places().settings), join_key(split_key(key))
    action = "set" if value is not None else "unset" if is_changed else "no value for"
    line = f"{action} {key} in {with_tilde(path) if source.live else path}."
    loaded = _load(source)
    if (origin := loaded.origins.get(name, path)) not in (path, "default"):
        line += f" Here {origin} takes precedence: {loaded.values[name]}."
    return report_act(line, *[name] * is_changed)


def _refuse_wrong_rules(key: str, value: str) -> None:
    from nexus_cli.rules.rule_set import DECISIONS, parse_rule  # noqa: PLC0415  (few settings are rules)
    from nexus_cli.tools.registry import rule_tools  # noqa: PLC0415  (as above)

    tools, listed = rule_tools(), parse_value(key, value)
    for decision in DECISIONS:
        for rule in listed if isinstance(listed, tuple) and key.endswith(f".{decision}") else ():
            try:
                parse_rule(decision, rule, tools)
            except ValueError as error:
                raise NexusError("config", key, str(error), "`nexus docs rules` describes rules") from None


def _strip_sign(text: str) -> str:
    """Return a typed value; also accept the form that `/config` prints: `= "dark"`."""
    value = text.strip().removeprefix("=").strip()
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if quoted else value


def unset_setting(source: Source, key: Key) -> Act:
    """Remove one setting from the personal config.toml, so that its default applies again."""
    return _write(source, key, None)


def print_path(source: Source) -> Text:
    """Print the path of the personal config.toml, even if the file does not exist."""
    return report_line("config.toml", str(places().settings))


async def configure(
    context: CommandContext,
    name: Name = "",
    value: Annotated[str, Argument("[VALUE]", "The new value.", is_text=True, permits=True)] = "",
) -> Report[ConfigReport | ActReport]:
    """Show all settings, or those whose key contains NAME, or set one: KEY VALUE."""
    source = SessionSource(context)
    if not value:
        return show_settings(source, name)
    report = set_setting(source, name, value)
    show_report(context, report)
    await _apply(context)
    return report._replace(note="")


async def _apply(context: CommandContext) -> None:
    """Apply a changed setting to the open session."""
    if context.session.busy:
        context.say("Run /reload after the turn to apply the change.")
    else:
        await apply_settings(context)


_KEYS = tuple(SETTINGS)
NOUN = Noun(
    "config",
    "setup",
    (
        Verb(configure, complete=_KEYS),
        Verb(show_settings, "show", opens="nothing"),
        Verb(get_setting, "get", opens="nothing", complete=_KEYS),
        Verb(set_setting, "set", Authority.PERMITS, "nothing", then=_apply, complete=_KEYS),
        Verb(unset_setting, "unset", Authority.PERMITS, "nothing", then=_apply, complete=_KEYS),
        Verb(print_path, "path", opens="nothing"),
    ),
    "Show the settings, or change a setting.",
    in_shell=("edit",),
    aliases=("settings", "setting"),
)
