"""List the hooks of a folder: the person's own, those of plugins, and those of its project with their state."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from nexus_cli.config.foreign_items import HOOKS, PARENT_PREFIX, PLUGIN_ROOT, RULES, UNSET
from nexus_cli.config.hook_tables import EVENTS, LONGEST_MATCHER, HookTable, parse_hook
from nexus_cli.config.project_items import project_folders
from nexus_cli.config.record_file import TRUST_RECORD
from nexus_cli.config.trust import (
    Configuration,
    read_configuration,
    trust_state,
    trusted_folder,
    trusted_items,
    trusted_texts,
)
from nexus_cli.config.trust_beside import UNREAD, read_scripts
from nexus_cli.config.trust_files import FOLDER, shown_path
from nexus_cli.config.trust_items import SETTINGS, TrustItem
from nexus_cli.config.unsupported import read_settings
from nexus_cli.core.elide import cut_at_word, one_line
from nexus_cli.core.json_value import JsonDict, JsonObject
from nexus_cli.core.real_files import real_path
from nexus_cli.core.version_memo import read_version
from nexus_cli.permission.folder_rules import parse_condition
from nexus_cli.plugins.installed_plugins import PLUGIN_RECORD, InstalledPlugin, installed_plugins

if TYPE_CHECKING:
    from nexus_cli.rules.rule_set import PermissionRule

PERSONAL = "config.toml"
"""Source of the person's own hooks."""
ACTIVE, CHANGED, UNTRUSTED, UNSUPPORTED = "active", "changed", "not trusted", "not supported"
CALL_EVENTS = ("PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure")
"""The events of a call."""
DISABLED = "disableAllHooks"
"""The key with which Claude's settings switch off the hooks of a project."""
TRUST = "changed since you trusted it; run `nexus trust`"
MAX_REPEATS = 3
"""Most repetitions in a matcher: more could take for ever on a long name."""
LONGEST = 60
"""Most characters of a hook's name."""
OBEYED = ("type", "command", "args", "timeout", "on_timeout", "async", "if", "shell")
"""Keys of a hook of Claude or codex that decide what nexus does."""
IGNORED = ("once", "statusMessage", "description")
"""Keys of a hook of Claude or codex that change nothing here."""


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook, its source, and whether it runs."""

    json_fields: ClassVar = """
        event:table.event matcher:table.matcher command:table.command timeout:table.timeout
        on_timeout:table.on_timeout source state why
    """
    table: HookTable
    source: str
    """The file that names it, relative to the project; `config.toml` for a personal one, `plugin NAME`."""
    folder: Path | None = None
    """Real path of the project's folder, or of the plugin's; None for the person's own."""
    state: str = ACTIVE
    """`active`, `changed`, `not trusted` or `not supported`."""
    why: str = ""
    """Why it does not run; "" for an active one."""
    scripts: Mapping[str, bytes] = field(default_factory=dict)
    """The trusted content of the files that its command names, by path in `folder`; for a plugin all of its files."""
    unknown_event: str = ""
    """The event of another program that it belongs to, if nexus has none of this name."""
    is_plugin: bool = False
    """True for a hook of a plugin. It runs in the project."""
    condition: str = ""
    """The rule, as Claude writes it, that names the calls for which it runs; "": all."""
    item: str = ""
    """The key of its item of trust or of its plugin; "" for one of the person's own."""
    is_async: bool = False
    """True if nothing waits for it, and its answer decides nothing."""

    @property
    def is_personal(self) -> bool:
        """True for a hook of the person's own settings."""
        return self.folder is None

    @property
    def is_foreign(self) -> bool:
        """True if it was written for another program, and uses that program's names of tools and arguments."""
        return self.is_plugin or self.source in HOOKS

    @property
    def is_codex(self) -> bool:
        """True if it was written for codex, whose `PostToolUse` also follows a command that failed."""
        return self.source == HOOKS[2]

    @property
    def key(self) -> object:
        """Return a value that hooks for another program share if it runs one of them alone. Those of the person all
        run, and one that cannot refuse a call stands for none that can."""
        table, identity = self.table, (self.is_codex, self.folder, self.condition, self.state, self.is_async)
        return (*identity, table.command, table.on_timeout) if self.is_foreign else id(self)

    @property
    def rules(self) -> tuple[PermissionRule, ...]:
        """Return `condition` as `parse_condition` does, () if it is empty."""
        return parse_condition(self.condition) if self.condition else ()

    @property
    def names_transcript(self) -> bool:
        """True if its command, or a script of it that is known, names the transcript."""
        return any(b"transcript" in text for text in (self.table.command.encode(), *self.scripts.values()))

    @property
    def name(self) -> str:
        """Its command on one line, shortened; a path in the project loses what is before the name of the file."""
        words = one_line(self.table.command).replace("$CLAUDE_PROJECT_DIR/", "").replace("${CLAUDE_PROJECT_DIR}/", "")
        words = words.replace(f"${{{PLUGIN_ROOT}}}/", "").replace(f"${PLUGIN_ROOT}/", "")
        return cut_at_word(words.replace('"', ""), LONGEST)

    @property
    def label(self) -> str:
        """Its name and its source, as lines for people have them."""
        return f"hook {self.name} ({self.source})"

    @property
    def is_broken(self) -> bool:
        """True if it, or the file of hooks that it stands for, was trusted and cannot run."""
        return self.state in (CHANGED, UNSUPPORTED)

    def describe_broken(self) -> str:
        """Return a line with the reason that it does not run."""
        return f"{self.label} is off: {self.why}" if self.name else f"hooks of {self.source}: {self.why}"

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
        if self.folder is None:
            return ""
        how = f"nexus plugin update {self.source.removeprefix('plugin ')}" if self.is_plugin else "nexus trust"
        source = trusted_folder(self.folder)
        hint = f"run {how}" if source == self.folder else f"copy it from {source}"
        now = self._read_files(self.folder)
        for path in sorted({*self.scripts, *now}):
            if (data := now.get(path)) is None:
                return f"{path} does not exist or is not a regular file; {hint}"
            if data != self.scripts.get(path) or data.startswith(UNREAD):
                return f"{path} has changed since you trusted it; {hint}"
        return ""

    def _read_files(self, folder: Path) -> dict[str, bytes]:
        """Return the content of the files that its trust depends on, by path in `folder`."""
        if not self.is_plugin:
            scripts = read_scripts([self.table.command], folder)
            return {name.removeprefix(PARENT_PREFIX): data for name, data in scripts.items()}
        contents: dict[str, bytes] = {}
        for path in self.scripts:
            with suppress(OSError):
                contents[path] = (folder / path).read_bytes()
        return contents


def read_stamp(cwd: Path) -> list[tuple[int, ...]]:
    """Return the state of the files that decide which hooks count in `cwd`, to notice a change: the records of
    trust and of plugins, and the files that may name hooks."""
    names = (f"{FOLDER}/{SETTINGS}", *HOOKS)
    theirs = (folder / name for folder in project_folders(cwd) for name in names)
    return [*map(read_version, (TRUST_RECORD.path, PLUGIN_RECORD.path, *theirs))]


def list_hooks(cwd: Path, personal: Sequence[HookTable]) -> list[Hook]:
    """Return all hooks that count in `cwd`: the `personal` ones, those of plugins, then those of the project from its
    root down, each in the order of its file. Blocks; never raises."""
    hooks = [_check_matcher(Hook(table, PERSONAL)) for table in personal]
    for plugin in installed_plugins():
        hooks += list_plugin_hooks(plugin)
    for folder in project_folders(cwd):
        configuration, source = read_configuration(folder, ("hook",)), trusted_folder(folder)
        if source != folder:
            theirs = trusted_items(source, read_configuration(source, ("hook",)))
            configuration = replace(configuration, items={**configuration.items, **theirs}, problem="")
        hooks += _project_hooks(folder, source, configuration)
    return hooks


def list_plugin_hooks(plugin: InstalledPlugin) -> Iterator[Hook]:
    """Yield the accepted hooks of a plugin, and those that were and have changed."""
    source, files = f"plugin {plugin.name}", plugin.folder.files if plugin.folder else {}
    for item, state in plugin.items("hook"):
        if state not in (ACTIVE, CHANGED):
            continue
        why = "" if state == ACTIVE else f"changed since you accepted it; run `nexus plugin update {plugin.name}`"
        hook = _read_hook(item.definition, plugin.root, state, why, item, source)
        if sign := UNSET.search(hook.table.command):
            hook = replace(hook, state=UNSUPPORTED, why=f"its command uses {sign[0]}, which nexus does not set")
        yield replace(hook, scripts=files, is_plugin=True, item=item.key)


def _project_hooks(folder: Path, source: Path, configuration: Configuration) -> Iterator[Hook]:
    """Yield the hooks of a folder, which in a worktree are also those of the folder `source` of its project, those that
    were trusted and are in no file any more, and a row for what is left out, which in a project that was never trusted
    only waits for trust."""
    in_force, before = trusted_items(folder, configuration), trusted_texts(folder)
    hooks = {key: item for key, item in configuration.items.items() if item.kind == "hook"}
    off = next((name for name in RULES if (read_settings(source, name) or {}).get(DISABLED) is True), "")
    readable = {item.file for item in hooks.values()}
    left_out = {name: one_line(why) for name, why in configuration.left_out}
    removed = {key: _removed_item(key, parts) for key, parts in before.items() if key not in configuration.items}
    removed = {key: item for key, item in removed.items() if item.parts}
    for key, item in (hooks | removed).items():
        text, state, why = item.definition, ACTIVE, ""
        if key not in in_force:
            state, why = (CHANGED, TRUST) if key in before else (UNTRUSTED, "run `nexus trust`")
            if item.file in left_out and item.file not in readable:
                why = f"{shown_path(item.file)} {left_out[item.file]}"
            text = (before.get(key) or {}).get(item.file) or text
        hook = replace(_read_hook(text, folder, state, why, item), item=key)
        if source != folder and hook.state == ACTIVE and (why := hook.find_change()):
            hook = replace(hook, state=CHANGED, why=why)
        is_off = off and hook.state != UNTRUSTED and hook.source in RULES
        refuses = hook.table.on_timeout == "deny"  # whoever wrote the key, nobody has accepted that it is off
        state = CHANGED if refuses else UNSUPPORTED
        yield replace(hook, state=state, why=f"{off} sets {DISABLED}") if is_off else hook
    unread = [name for name in left_out if name in readable or name not in {item.file for item in removed.values()}]
    is_known = bool(unread) and (bool(before) or trust_state(folder, configuration) in ("trusted", "changed"))
    for name in unread:
        state = UNSUPPORTED if is_known else UNTRUSTED
        yield Hook(HookTable("", ""), shown_path(name), real_path(folder), state, f"it {left_out[name]}")


def _removed_item(key: str, parts: Mapping[str, str | None]) -> TrustItem:
    """Return a trusted item that is in no file any more; one that is no hook has no definition."""
    file = next((PARENT_PREFIX + path for path in HOOKS if key.startswith(f"hook {path}: ")), SETTINGS)
    text = parts.get(file) if key.startswith("hook ") else None
    return TrustItem("hook", key.removeprefix("hook "), {} if text is None else {file: text.encode()}, file)


def _read_hook(text: str, folder: Path, state: str, why: str, item: TrustItem, source: str = "") -> Hook:
    """Return the hook of an item by the canonical text of its definition."""
    source, place = source or shown_path(item.file), real_path(folder)
    table, problem, keys = None, "", JsonDict()
    try:
        value = json.loads(text)
        if isinstance(value, list):
            keys = value[2]
            table, problem = _read_foreign(*value)
        else:
            table = parse_hook(value)
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        problem = one_line(str(error))[:200]
    if table is None:
        unread = HookTable("", one_line(item.name).removeprefix(f"{source}: "))
        event = one_line(str(value[0])) if isinstance(value, list) and value and value[0] not in EVENTS else ""
        return Hook(unread, source, place, UNSUPPORTED, problem, unknown_event=event)
    scripts = {part.removeprefix(PARENT_PREFIX): data for part, data in item.parts.items() if part != item.file}
    hook = Hook(
        table, source, place, state, why, scripts, condition=keys.get("if", ""), is_async=keys.get("async") is True
    )
    try:
        if hook.rules and table.event not in CALL_EVENTS:
            raise ValueError(f"{table.event} is not a tool call event")
    except ValueError as error:
        why = f'its `if` "{cut_at_word(one_line(hook.condition), LONGEST)}" is not supported: {error}'
        return replace(hook, state=UNSUPPORTED, why=why)
    return _check_matcher(hook)


def _read_foreign(event: str, matcher: str, hook: JsonObject) -> tuple[HookTable | None, str]:
    """Return a hook of Claude or codex, or None and why it is not supported."""
    kind, command, args = hook.get("type", "command"), hook.get("command"), hook.get("args", [])
    if event not in EVENTS:
        return None, f"unknown event {one_line(event)}"
    if kind != "command" or not isinstance(command, str):
        return None, f"its `type` is {one_line(str(kind))}; only command, with a `command` string, is supported"
    if unknown := sorted({*hook} - {*OBEYED, *IGNORED}):
        return None, f"`{one_line(unknown[0])}` is not supported"
    if hook.get("shell", "bash") != "bash":
        return None, f"its `shell` is {one_line(str(hook['shell']))}; only bash is supported"
    if not isinstance(hook.get("if", ""), str):
        return None, "`if` must be a string"
    if not isinstance(args, list) or not all(isinstance(word, str) for word in args):
        return None, "`args` must be a list of strings"
    value: JsonObject = {key: hook[key] for key in ("timeout", "on_timeout") if key in hook}
    command = " ".join([command, *map(shlex.quote, args)])
    return parse_hook({"event": event, "matcher": matcher, "command": command, **value}), ""


def _check_matcher(hook: Hook) -> Hook:
    """Return the hook, as not supported if its matcher is not a regular expression, or one that could take for ever."""
    matcher = "" if hook.table.matcher == "*" else hook.table.matcher
    why = ""
    if len(matcher) > LONGEST_MATCHER:
        why = f"its matcher has more than {LONGEST_MATCHER} characters"
    elif len(re.findall(r"[*+{]", matcher)) > MAX_REPEATS or re.search(r"\)[*+{]", matcher):
        why = f'its matcher "{one_line(matcher)}" repeats a group, or has more than {MAX_REPEATS} repetitions'
    else:
        try:
            re.compile(matcher)
        except (re.error, RecursionError, OverflowError):
            why = f'its matcher "{one_line(matcher)}" is not a regular expression'
    return replace(hook, state=UNSUPPORTED, why=why) if why else hook
