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
from nexus_cli.config.trust import Configuration, read_configuration, record_path, trusted_keys, trusted_texts
from nexus_cli.config.trust_beside import UNREAD, read_scripts
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

    def matches(self, names: Iterable[str]) -> bool:
        """Return True if one of `names` is named by the matcher."""
        matcher = self.table.matcher
        if matcher in ("", "*"):
            return True
        if re.fullmatch(r"[\w |,-]+", matcher):
            return bool({word.strip() for word in re.split(r"[|,]", matcher)} & set(names))
        return any(re.search(matcher, name) for name in names)

    def find_change(self) -> str:
        """Return why it may not run any more, because a file that its command names has changed; "" if none has."""
        if self.folder is None:
            return ""
        now = read_scripts([self.table.command], self.folder)
        for path in sorted({*self.scripts, *(name.removeprefix(ABOVE) for name in now)}):
            if (data := now.get(ABOVE + path)) is None:
                return f"{path} is gone"
            if data != self.scripts.get(path) or data.startswith(UNREAD):
                return f"{path} has changed since you trusted it: nexus trust"
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


def read_stamp(cwd: Path) -> list[tuple[int, ...]]:
    """Return the state of the files that decide which hooks count in `cwd`, to notice a change: the record of trust,
    and the files that may name hooks."""
    names = (f"{FOLDER}/{SETTINGS}", *HOOKS)
    found: list[tuple[int, ...]] = []
    for path in (record_path(), *(folder / name for folder in project_folders(cwd) for name in names)):
        try:
            about = os.stat(path)
            found.append((about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns))
        except OSError:
            found.append(())
    return found


def list_hooks(cwd: Path, personal: Sequence[HookTable]) -> list[Hook]:
    """Return all hooks that count in `cwd`: the `personal` ones, then those of the project from its root down, each in
    the order of its file. Blocks; never raises."""
    hooks = [_checked(Hook(table, PERSONAL)) for table in personal]
    for folder in project_folders(cwd):
        hooks += _project_hooks(folder, read_configuration(folder, beside=True))
    return hooks


def _project_hooks(folder: Path, found: Configuration) -> Iterator[Hook]:
    in_force = trusted_keys(folder, found)
    before = trusted_texts(folder)
    items = found.items
    hooks = [(key, item) for key, item in items.items() if item.kind == "hook"]
    hooks += [(key, _removed_item(key, parts)) for key, parts in before.items() if key not in items]
    for key, item in hooks:
        if item.file not in item.parts:  # one that was removed, and is no hook
            continue
        source = f"{FOLDER}/{SETTINGS}" if item.file == SETTINGS else item.file.removeprefix(ABOVE)
        text, state, why = item.parts[item.file].decode("utf-8", "replace"), ACTIVE, ""
        if key not in in_force:
            state, why = (CHANGED, TRUST) if key in before else (UNTRUSTED, "nexus trust")
            text = (before.get(key) or {}).get(item.file) or text
        try:
            yield _read_hook(text, source, Path(os.path.realpath(folder)), state, why, item)
        except (ValueError, TypeError, RecursionError, OverflowError) as error:
            unread = HookTable("", one_line(item.name))
            yield Hook(unread, source, Path(os.path.realpath(folder)), UNSUPPORTED, one_line(str(error))[:200])


def _removed_item(key: str, parts: Mapping[str, str | None]) -> TrustItem:
    """Return a trusted item that is in no file any more; one that is no hook has no definition."""
    file = next((ABOVE + path for path in HOOKS if key.startswith(f"hook {path}: ")), SETTINGS)
    text = parts.get(file) if key.startswith("hook ") else None
    return TrustItem("hook", key.removeprefix("hook "), {} if text is None else {file: text.encode()}, file)


def _read_hook(text: str, source: str, folder: Path, state: str, why: str, item: TrustItem) -> Hook:
    """Return the hook of an item by the canonical text of its definition."""
    value = json.loads(text)
    problem, table = "", parse_hook(value) if isinstance(value, dict) else None
    if isinstance(value, list):
        table, problem = _read_foreign(*value)
    if table is None:
        shown = one_line(item.name)
        unread = HookTable("", shown)
        return Hook(unread, source, folder, UNSUPPORTED, problem or "it is no valid [[hook]]")
    scripts = {part.removeprefix(ABOVE): data for part, data in item.parts.items() if part != item.file}
    return _checked(Hook(table, source, folder, state, why, scripts))


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


def _checked(hook: Hook) -> Hook:
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
