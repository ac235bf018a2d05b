"""List the hooks of a folder: the person's own, and those of its project with their state of trust."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nexus_cli.config.foreign_items import ABOVE, HOOKS
from nexus_cli.config.hook_tables import EVENTS, LONGEST_MATCHER, HookTable, parse_hook
from nexus_cli.config.project_items import project_folders
from nexus_cli.config.trust import Configuration, read_configuration, trust_state, trusted_keys, trusted_texts
from nexus_cli.config.trust_files import FOLDER
from nexus_cli.config.trust_items import SETTINGS, TrustItem
from nexus_cli.core.elide import cut_at_word, one_line

PERSONAL = "config.toml"
"""Source of the person's own hooks."""
ACTIVE, CHANGED, UNTRUSTED, UNSUPPORTED = "active", "changed", "not trusted", "not supported"
TRUST = "it has changed since you trusted it: nexus trust"
MOST_REPEATS = 3
"""Most repetitions in a matcher: more could take for ever on a long name."""
LONGEST = 60
"""Most characters of a hook's name."""
_KNOWN = {"type", "command", "args", "timeout", "on_timeout", "async", "statusMessage", "description"}
"""Keys of a hook of Claude or codex that are obeyed, or that change nothing here."""


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook, its source, and whether it runs."""

    table: HookTable
    source: str
    """The file that names it, relative to the project; `PERSONAL` for the person's own."""
    folder: Path | None = None
    """Real path of the project's folder; None for the person's own."""
    state: str = ACTIVE
    why: str = ""
    """Why it does not run; "" for an active one."""
    scripts: Mapping[str, bytes] = field(default_factory=dict)
    """The trusted content of the files that its command names, by path in `folder`."""

    @property
    def is_personal(self) -> bool:
        """True for a hook of the person's own settings."""
        return self.folder is None

    @property
    def is_foreign(self) -> bool:
        """True if it was written for another program, whose names of tools and arguments it knows."""
        return self.source in HOOKS

    @property
    def name(self) -> str:
        """Its command on one line, shortened; a path in the project loses what is before the name of the file."""
        words = one_line(self.table.command).replace("$CLAUDE_PROJECT_DIR/", "").replace("${CLAUDE_PROJECT_DIR}/", "")
        return cut_at_word(words.replace('"', ""), LONGEST)

    @property
    def is_broken(self) -> bool:
        """True if it, or the file of hooks that it stands for, was trusted and cannot run."""
        return self.state in (CHANGED, UNSUPPORTED)

    def describe_broken(self) -> str:
        """Return a line with the reason that it does not run."""
        name, source = self.name, self.source
        return f"hook {name} ({source}) is off: {self.why}" if name else f"hooks of {source}: {self.why}"

    def matches(self, names: Iterable[str]) -> bool:
        """Return True if one of `names` is named by the matcher."""
        matcher = self.table.matcher
        if matcher in ("", "*"):
            return True
        if re.fullmatch(r"[\w |,-]+", matcher):
            return bool({word.strip() for word in re.split(r"[|,]", matcher)} & set(names))
        return any(re.search(matcher, name) for name in names)

    def find_change(self) -> str:
        """Return the reason that it may not run any more: a file that its command names has changed; "" if none has."""
        for path, trusted in self.scripts.items():
            try:
                if (Path(self.folder or ".") / path).read_bytes() != trusted:
                    return f"{path} has changed since you trusted it: nexus trust"
            except OSError:
                return f"{path} is gone"
        return ""

    def to_json(self) -> dict[str, Any]:
        """Return the row of `/hooks` and `nexus status --json`."""
        table = self.table
        return {
            "event": table.event,
            "matcher": table.matcher,
            "command": table.command,
            "timeout": table.timeout,
            "on_timeout": table.on_timeout,
            "source": self.source,
            "state": self.state,
            "why": self.why,
        }


def list_hooks(cwd: Path, personal: Sequence[HookTable]) -> list[Hook]:
    """Return all hooks that count in `cwd`: the `personal` ones, then those of the project from its root down, each in
    the order of its file. Blocks; never raises."""
    hooks = [_check_matcher(Hook(table, PERSONAL)) for table in personal]
    for folder in project_folders(cwd):
        found = read_configuration(folder, ("hook",))
        if found.files:
            hooks += _project_hooks(folder, found)
        hooks += _left_out_hooks(folder, found)
    return hooks


def _project_hooks(folder: Path, found: Configuration) -> Iterator[Hook]:
    in_force = trusted_keys(folder, found)
    hooks = {key: item for key, item in found.items.items() if item.kind == "hook"}
    before = {} if in_force.issuperset(hooks) else trusted_texts(folder)
    for key, item in hooks.items():
        text, state, why = item.parts[item.file].decode("utf-8", "replace"), ACTIVE, ""
        if key not in in_force:
            state, why = (CHANGED, TRUST) if key in before else (UNTRUSTED, "nexus trust")
            text = (before.get(key) or {}).get(item.file) or text
        yield _read_hook(text, folder, state, why, item)


def _left_out_hooks(folder: Path, found: Configuration) -> Iterator[Hook]:
    """Yield the trusted hooks of each file that cannot be read any more, as changed; else a row for what is left out,
    which in a project that was never trusted only waits for trust."""
    before = trusted_texts(folder) if found.left_out else {}
    is_known = bool(before) or (bool(found.left_out) and trust_state(folder, found) in ("trusted", "changed"))
    readable = {item.file for item in found.items.values() if item.kind == "hook"}
    for name, why in found.left_out:
        source = _source(name)
        prefix = "hook " if name == SETTINGS else f"hook {source}: "
        stored = {key: text for key, parts in before.items() if key.startswith(prefix) and (text := parts.get(name))}
        if stored and name not in readable:
            for key, text in stored.items():
                item = TrustItem("hook", key.removeprefix("hook "), {name: text.encode()}, name)
                yield _read_hook(text, folder, CHANGED, f"{source} {one_line(why)}", item)
        else:
            state = UNSUPPORTED if is_known else UNTRUSTED
            yield Hook(HookTable("", ""), source, Path(os.path.realpath(folder)), state, f"it {one_line(why)}")


def _source(name: str) -> str:
    """Return the path in the project of a part of its configuration."""
    return name.removeprefix(ABOVE) if name.startswith(ABOVE) else f"{FOLDER}/{name}"


def _read_hook(text: str, folder: Path, state: str, why: str, item: TrustItem) -> Hook:
    """Return the hook of an item by the canonical text of its definition."""
    source, place = _source(item.file), Path(os.path.realpath(folder))
    table, problem = None, "it is no valid [[hook]]"
    try:
        value = json.loads(text)
        if isinstance(value, list):
            table, problem = _read_foreign(*value)
        elif isinstance(value, dict):
            table = parse_hook(value)
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        problem = one_line(str(error))[:200]
    if table is None:
        return Hook(HookTable("", one_line(item.name)), source, place, UNSUPPORTED, problem)
    scripts = {part.removeprefix(ABOVE): data for part, data in item.parts.items() if part != item.file}
    return _check_matcher(Hook(table, source, place, state, why, scripts))


def _read_foreign(event: str, matcher: str, hook: Mapping[str, Any]) -> tuple[HookTable | None, str]:
    """Return a hook of Claude or codex, or None and why it is not supported."""
    kind, command, args = hook.get("type", "command"), hook.get("command"), hook.get("args", [])
    if event not in EVENTS:
        return None, f"no event {one_line(event)} here"
    if kind != "command" or not isinstance(command, str):
        return None, f"its type is {one_line(str(kind))}, not command"
    if unknown := sorted(set(hook) - _KNOWN):
        return None, f"`{one_line(unknown[0])}` is not supported"
    if not isinstance(args, list) or not all(isinstance(word, str) for word in args):
        return None, "`args` is no list of texts"
    value: dict[str, Any] = {key: hook[key] for key in ("timeout", "on_timeout") if key in hook}
    command = " ".join([command, *map(shlex.quote, args)])
    table = parse_hook({"event": event, "matcher": matcher, "command": command, **value})
    return table, "" if table else "its command, `timeout` or `on_timeout` is invalid"


def _check_matcher(hook: Hook) -> Hook:
    """Return the hook, as not supported if its matcher is no regular expression, or one that could take for ever."""
    matcher = "" if hook.table.matcher == "*" else hook.table.matcher
    why = ""
    if len(matcher) > LONGEST_MATCHER:
        why = f"its matcher has more than {LONGEST_MATCHER} characters"
    elif len(re.findall(r"[*+{]", matcher)) > MOST_REPEATS or re.search(r"\)[*+{]", matcher):
        why = f"its matcher {one_line(matcher)} repeats a group, or more than {MOST_REPEATS} times"
    else:
        try:
            re.compile(matcher)
        except (re.error, RecursionError, OverflowError):
            why = f"its matcher {one_line(matcher)} is no regular expression"
    return Hook(hook.table, hook.source, hook.folder, UNSUPPORTED, why) if why else hook
