"""Text of status, checks, trust, tools, skills, models, limits and help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nexus_cli.config.settings import shown_value
from nexus_cli.config.unsupported import Unsupported, describe_unsupported
from nexus_cli.core.limits import name_level
from nexus_cli.reports.text.lines import Value, filled, limit, number, plural, table
from nexus_cli.reports.text.permissions import sandbox_line
from nexus_cli.text.cells import expand_tabs, fold, one_line
from nexus_cli.text.terminal_sanitizer import sanitize

WIDE = 50
"""Least width at which names have a column of their own."""
TRUST = {
    "trusted": "trusted",
    "changed": "trusted in part: some files are new or have changed (`nexus trust`)",
    "untrusted": "not trusted: its configuration is not in effect (`nexus trust`)",
    "nothing": "has no configuration of its own",
}
SIGNS = {"ok": "ok     ", "note": "note   ", "broken": "BROKEN "}
STANDS = {
    "trusted": "Trusted.",
    "changed": "New and changed files are not in effect; the others are.",
    "untrusted": "It is not in effect.",
    "nothing": "There is no configuration of this project: nothing to trust.",
}
FRONTS = ("ask", "chat")
"""Recipes that everybody has: those of `nexus ask` and of sessions."""
SINCE = {
    "changed": "Changed since it was trusted",
    "new": "New since this was trusted",
    "removed": "Removed since it was trusted",
}
NO_SKILLS = "There are no skills. A skill is a folder with a SKILL.md, in the skills folder beside config.toml."
NO_MODEL = "No model is usable yet: there is no key and no local server. `nexus login PROVIDER` stores a key."
PRICES = (
    ("input_price", "input"),
    ("output_price", "output"),
    ("cache_read_price", "read from cache"),
    ("cache_write_price", "write to cache"),
)


def status_text(value: Value, width: int) -> str:
    """Return a line for each kind of information; each skill has its own line."""
    lines = [line for name, said in _status_rows(value) for line in _line(name, said, width)]
    for skill in value["skills"]:
        lines += filled(f"{skill['name']}: {skill['description']}", width, "      ", "  - ")
    notes = [line for notice in value["notices"] for line in filled(notice, width, "  ", "note: ")]
    return "\n".join([*lines, *notes])


def _line(name: str, said: str, width: int) -> list[str]:
    wide = width >= WIDE
    return filled(said if wide else f"{name}: {said}", width, "    ", f"{name:<13}" if wide else "")


def _status_rows(value: Value) -> Iterator[tuple[str, str]]:
    yield "model", value["model"] or f"{value['model_why']}; `nexus doctor` says what to do"
    yield "host", value["host"]
    yield "tools", _names(value["tools"])
    if value["servers"]:
        yield "MCP servers", f"{_names([one['name'] for one in value['servers']])}: not started, they give no tools"
    yield "keys set", _names(value["credentials"])
    if own := [name for name in value["recipes"] if name not in FRONTS]:
        yield "recipes", _names(own)
    yield "project", f"{value['project']['folder']}, {TRUST[value['project']['trust']]}"
    if value["project"]["unsupported"]:
        yield "not read", describe_unsupported(tuple(Unsupported(**one) for one in value["project"]["unsupported"]))
    if value["memory"] is not None:
        yield (
            "memory",
            ", ".join(f"{count} {kind}" for kind, count in value["memory"].items() if count) or "nothing yet",
        )
    if "sandbox" in value and value["sandbox"]["backend"] == "none" and value["allow"] != "all":
        yield "sandbox", f"{sandbox_line(value['sandbox'])}; `nexus doctor` says what to do"
    if "warm" in value:
        yield "warm start", warm_line(value["warm"])
    hidden = value["project"]["skills_not_trusted"]
    more = f"; {hidden:,} more in this project after `nexus trust`" if hidden else ""
    if broken := list(_broken(value)):
        yield "broken", "; ".join(broken)
    yield "skills", (plural(len(value["skills"]), "skill") if value["skills"] else "none") + more


def _broken(value: Value) -> Iterator[str]:
    """Yield the configured features that cannot be used, with the reason."""
    for category in value.get("capabilities", ()):
        for one in category["items"]:
            if one["state"] == "broken":
                yield f"{one['name']} ({one['why'] or category['category']})"


def _names(names: list[str]) -> str:
    return ", ".join(names) or "none"


def warm_line(value: Value) -> str:
    """Describe the warm start of one-shots in one line."""
    if not value["running"]:
        return "not running; the next nexus ask starts it" if value["minutes"] else "off"
    size = f", {number(round(value['memory'] / 1e6))} MB" if value["memory"] else ""
    calls = plural(value["calls"], "call")
    return f"process {value['pid']}{size}, {calls}; ends after {value['minutes']:g} idle minutes"


def warm_text(value: Value, width: int) -> str:
    """Describe the warm start as a report of its own."""
    return "\n".join(filled(f"Warm start: {warm_line(value)}", width))


def doctor_text(value: Value, width: int) -> str:
    """List the checks that pass and those that fail."""
    indent = " " * 8 if width >= 40 else "  "
    lines = []
    for check in value["checks"]:
        lines += filled(f"{check['name']}: {check['detail']}", width, indent, f"{SIGNS[check['status']]} ")
        if check["hint"]:
            lines += filled(check["hint"], width, indent)
    last = "nexus can work here." if value["ok"] else "Something is broken, see above."
    if value["ok"] and not value["model"]:
        last = "nexus can work here as soon as it has a model, see above."
    return "\n".join([*lines, "", *filled(last, width)])


def trust_text(value: Value, width: int) -> str:
    """List each setting with its effect, each file by its kind, the changes since it was trusted, and the state."""
    lines = filled(value["project"], width, "  ")
    for setting in value["settings"]:
        shown = shown_value(setting["key"], setting["value"])
        lines += filled(f"{setting['key']} = {shown}: {setting['effect']}", width, " " * 6, "  ")
    for name in value["refused"]:
        lines += filled(f"{name}: a project cannot set this; ignored", width, " " * 6, "  ")
    for file in value["files"]:
        lines += filled(f"{file['name']}, {number(file['bytes'])} bytes", width, " " * 6, "  ")
    for problem in value["problems"]:
        lines += filled(f"Not in effect: {problem}", width, " " * 6, "  ")
    for item in value["items"]:
        what = " ".join(filter(None, (item["kind"], item["name"])))
        if item["kind"] in ("rule", "server"):
            lines += filled(what, width, " " * 6, "  ")
        if item["diff"]:
            lines += ["", *filled(f"{SINCE[item['state']]}: {what}", width, "  ")]
            for line in item["diff"].splitlines():
                first, *rest = fold(expand_tabs(sanitize(line)), width - 4)
                lines += [f"  {first}", *(f"    {piece}" for piece in rest)]
    stands = STANDS[value["state"]]
    if value["state"] == "trusted":
        stands += f" Active: {_names(value['active'])}{', except for the files named above' * bool(value['problems'])}."
    if value["unsupported"]:
        stands += f" Not supported yet: {_names(value['unsupported'])}."
    return "\n".join([*lines, "", *filled(stands, width)])


def tools_text(value: Value, width: int) -> str:
    """List each tool with its effect, the tokens of its schema, and when it asks."""
    tools = value["tools"]
    if not tools:
        return "\n".join(filled("This session has no tools.", width))
    rows = [("name", "tokens", "does", "asks first")]
    rows += [(tool["name"], number(tool["tokens"]), tool["does"], tool["asks"]) for tool in tools]
    total = sum(tool["tokens"] or 0 for tool in tools)
    level = name_level(value["level"])
    foot = f"{number(total)} tokens of schemas in every request. Level: {level}; /permissions changes it."
    return "\n".join([*table(rows, width, right=(1,)), "", *filled(foot, width)])


def skills_text(value: Value, width: int) -> str:
    """List the skills by name."""
    rows = [("name", "from", "what")]
    for skill in value["skills"]:
        said = skill["description"]
        if skill["problem"]:
            said = f"[cannot be used: {skill['problem']}]"
        elif skill["shadowed"]:
            said = f"[shadowed by the one before] {said}"
        rows.append((skill["name"], skill["origin"], said))
    lines = table(rows, width) if len(rows) > 1 else filled(NO_SKILLS, width)
    if value["untrusted"]:
        more = plural(value["untrusted"], "more skill")
        lines += ["", *filled(f"This project has {more}; `nexus trust` enables them.", width)]
    elif len(rows) > 1:
        lines += ["", *filled("`nexus skill use NAME` prints the guide.", width)]
    return "\n".join(lines)


def models_text(value: Value, width: int) -> str:
    """List the models that are usable now."""
    models = value["models"]
    if not models:
        return "\n".join(filled(NO_MODEL, width))
    rows = [("", "model", "window", "$ in", "$ out", "cache", "because")]
    for m in models:
        mark = "*" if m["name"] == value.get("chosen") else ""
        prices = (number(m["input_price"]), number(m["output_price"]), "yes" if m["cache"] else "no")
        rows.append((mark, m["name"], _window(m), *prices, ", ".join(m["because"])))
    foot = "$ per million tokens, - is unknown. * is the default."
    return "\n".join([*table(rows, width, right=(2, 3, 4)), "", *filled(foot, width)])


def model_text(value: Value, width: int) -> str:
    """Show one model: its address, its window, its prices."""
    rows = [
        ("model", value["name"] + (" (the default)" if value.get("chosen") else "")),
        ("provider", value.get("provider") or "unknown"),
        ("window", f"{_window(value)} tokens{_origin(value)}"),
        ("output", f"at most {number(value['max_output'])} tokens" if value["max_output"] else "unknown"),
        *((f"$ {name}", _price(value[key])) for key, name in PRICES),
        ("cache", "yes" if value["cache"] else "no"),
        ("images", "yes" if value["images"] else "no"),
        ("effort", "yes" if value.get("effort") else "no"),
        ("because", ", ".join(value.get("because", ())) or "-"),
    ]
    size = max(len(name) for name, _ in rows) + 2
    if width < size + 16:
        return "\n".join(line for name, text in rows for line in filled(f"{name}: {text}", width, "  ", ""))
    return "\n".join(line for name, text in rows for line in filled(text, width, " " * size, name.ljust(size)))


def _price(value: Any) -> str:
    return "unknown" if value is None else f"{number(value)} per million tokens"


def _window(model: Value) -> str:
    return number(model["window"]) if model["known"] or model["window_told"] else f"{model['window']:,}?"


def _origin(model: Value) -> str:
    """Describe the origin of a window that is not in the table."""
    if model["window_told"]:
        return f', as the provider reported; [models."{model["name"]}"] window in config.toml overrides it'
    return "" if model["known"] else ", assumed: it is not in the table"


def why_text(value: Value, width: int) -> str:
    """List each limit with its value, the layer that bound it and the value of each layer; signals only if they may
    bind."""
    limits = value["limits"]
    if not limits:
        return "\n".join(filled(f"{value['name'] or 'Nothing'} has no limit.", width))
    lines = []
    for bound in limits:
        name = bound["name"]
        lines += filled(f"{name} = {limit(bound['value'], name)} (from {bound['bound_by']})", width, "  ")
        for layer, said in bound["said"].items():
            lines += filled(f"{layer}: {limit(said, name)}", width, " " * 6, "    ")
    signals = value["signals"]
    if not signals["bind"]:
        return "\n".join(lines)
    failed = plural(signals["recent_errors"], "call")
    state = f"Pressure is {signals['token_pressure']}, {failed} in a row could not run"
    state += f", the run is {signals['event_class']}" if signals["event_class"] else ""
    ends = f"The recipe {value['recipe']} tightens its limits accordingly."
    return "\n".join([*lines, "", *filled(f"{state}. {ends}", width)])


def settings_text(value: Value, width: int) -> str:
    """List each setting as TOML, with its origin unless that is the package."""
    lines = []
    for setting in value["settings"]:
        origin = "" if setting["origin"] == "default" else f"  # {setting['origin']}"
        lines += filled(f"{setting['key']} = {toml_literal(setting['value'])}{origin}", width, "    ", "  ")
    foot = f"Your file: {value['path']}. /config KEY VALUE changes a setting, then /reload applies it."
    return "\n".join([*lines, "", *filled(foot, width)])


def toml_literal(value: str | bool | int | float | Sequence[str]) -> str:
    """Return `value` as a TOML literal."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, Sequence):
        return f"[{', '.join(map(toml_literal, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def help_text(value: Value, width: int) -> str:
    """List every command with its summary, or show one with its whole help."""
    if value.get("command"):
        return _one(value["command"], width)
    lines: list[str] = []
    commands = [command for group in value["groups"] for command in group["commands"]]
    keys = [(one_line(names), what) for names, what in value.get("keys", ())]
    size = max([0, *(len(_call(command)) for command in commands), *(len(names) for names, _ in keys)]) + 4
    for group in value["groups"]:
        lines += [*([""] if lines else []), *filled(f"{group['name']}:", width)]
        for command in group["commands"]:
            lines += _columns(f"  {_call(command)}", command["summary"], size, width)
    if keys:
        lines += ["", "keys:"]
        for names, what in keys:
            lines += _columns(f"  {names}", what, size, width)
    if value.get("more"):
        lines += [
            "",
            *filled(f"/help all lists {number(value['more'])} more commands; /help NAME explains one.", width),
        ]
    return "\n".join(lines)


def _call(command: Value) -> str:
    return f"/{command['name']} {command['usage']}".rstrip()


def _columns(left: str, text: str, size: int, width: int) -> list[str]:
    """Return a name and its explanation side by side, or below each other if there is no room."""
    if size + 20 > width or len(left) + 2 > size:
        return [*filled(left.strip(), width, "    ", "  "), *filled(text, width, "      ")]
    return filled(text, width, " " * size, left.ljust(size))


def _one(command: Value, width: int) -> str:
    lines = filled(_call(command), width, "    ", "")
    if command.get("aliases"):
        lines += filled("also " + ", ".join(f"/{name}" for name in command["aliases"]), width)
    lines.append("")
    for paragraph in str(command["help"]).split("\n\n"):
        lines += [*filled(paragraph, width), ""]
    if command.get("idle"):
        lines += filled("During a turn it waits until the turn has ended.", width)
    return "\n".join(lines).rstrip("\n")
