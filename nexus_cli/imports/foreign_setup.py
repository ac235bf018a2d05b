"""Hold what another program keeps in the home folder, in our terms: settings, rules, servers, instructions, commands.

What has no counterpart is a line in `lost` (it kept something from happening) or `notes`. An allow rule that would be
broader here is left out. A value that is a key is never taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType

import yaml

from nexus_cli.config.paths import home_folder, with_tilde
from nexus_cli.config.setting_rules import is_key_name
from nexus_cli.config.trust_files import MAX_BYTES
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonDict, JsonObject
from nexus_cli.core.limits import Decision
from nexus_cli.core.real_files import read_beginning
from nexus_cli.core.redact_secrets import NAMED_SECRET, redact
from nexus_cli.core.tool import Tool
from nexus_cli.core.wire import as_table
from nexus_cli.mcp.server_entries import parse_entry
from nexus_cli.provider.endpoint import is_provider_key
from nexus_cli.provider.key_shapes import LOGIN_NAMES, find_provider
from nexus_cli.rules.rule_set import parse_rule
from nexus_cli.tools.registry import rule_tools

FROM_ENVIRONMENT = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)(?::-[^{}]*)?\}")
COMMAND_TOOLS = ("Bash", "bash")
EDIT_TOOLS = ("Edit", "MultiEdit", "Write", "NotebookEdit")
"""Names of one program that rules for the others of it may limit."""
_OPAQUE = re.compile(
    r"[^/:]*(?<![A-Za-z0-9])(?=[a-zA-Z]{0,60}\d)(?=\d{0,60}[a-zA-Z])[A-Za-z0-9]{20,}(?![A-Za-z0-9])[^/:]*"
    r"|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
)
"""A long word of letters and digits, or a UUID: no name has this form."""
_SECRET_HEADER = re.compile(r"(?i)auth|key|token|secret|cookie|passw")


def describe_key_setup(name: str) -> str:
    """Return the way to keep the key of a provider or variable: nexus does not store every key."""
    is_own = name in LOGIN_NAMES or (is_key_name(name) and not is_provider_key(name))
    try:
        return f"to store the key: nexus login {name if is_own else find_provider(name)}"
    except NexusError:
        return "export the key in your shell"


@dataclass
class ForeignSetup:
    """The setup of one program."""

    program: str
    files: list[str] = field(default_factory=list)
    """Files that were read, as they are shown."""
    settings: dict[str, str] = field(default_factory=dict)
    """Our settings as a person types them."""
    rules: dict[tuple[Decision, str], None] = field(default_factory=dict)
    servers: dict[str, JsonDict] = field(default_factory=dict)
    """Entries of `[mcp.NAME]`."""
    instructions: str = ""
    commands: dict[str, str] = field(default_factory=dict)
    """Text by name of the file."""
    lost: list[str] = field(default_factory=list)
    """Rules that deny or ask in the other program, and not here."""
    notes: list[str] = field(default_factory=list)
    """What else is not taken over."""
    in_place: list[str] = field(default_factory=list)
    """What nexus uses in place, without importing it."""
    tools: Mapping[str, Tool] = field(default_factory=rule_tools, repr=False)
    _allowed: dict[str, list[str]] = field(default_factory=dict)
    """By allow rule as the other program has it: what it became here."""
    _lost_rules: list[str] = field(default_factory=list)

    def read(self, path: Path, *, guards: bool = False) -> str:
        """Return the text of a file, "" if there is none. One that cannot be read is a line in `notes`, or in `lost` if
        it `guards`: it may have rules that deny."""
        try:
            data = read_beginning(path, MAX_BYTES + 1)
            text = data.decode("utf-8-sig")
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except (OSError, UnicodeDecodeError) as error:
            why = "not UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
            self.skip_file(path, str(why), guards=guards)
            return ""
        if len(data) > MAX_BYTES or "\0" in text:
            self.skip_file(path, "too large, or not text", guards=guards)
            return ""
        self.files.append(with_tilde(path))
        return text

    def skip_file(self, path: Path, why: str, *, guards: bool) -> None:
        """Report a file that cannot be read."""
        line = f"{with_tilde(path)}: {one_line(why)[:160]}"
        if guards:
            self.report_unknown_rules(f"{line}. nexus does not know its rules")
        else:
            self.notes.append(line)

    def read_table(
        self,
        path: Path,
        text: str | None = None,
        *,
        guards: bool = True,
        parse: Callable[[str], object] = json.loads,
    ) -> JsonDict:
        """Return the object in a file (`text` if it is given), {} if there is none or it is invalid."""
        text = self.read(path, guards=guards) if text is None else text
        if not text.strip():
            return {}
        try:
            value = parse(text)
        except (ValueError, RecursionError, yaml.YAMLError) as error:
            self.skip_file(path, f"not a valid {path.suffix} file ({error})", guards=guards)
            return {}
        if not isinstance(value, dict):
            self.skip_file(path, "does not contain an object", guards=guards)
        return as_table(value)

    def note(self, line: str) -> None:
        """Report entries that are not imported, without the keys in the line."""
        self.notes.append(one_line(redact(line, environ={}))[:300])

    def report_lost_rule(self, decision: str, line: str) -> None:
        """Report a rule that has no counterpart."""
        line = one_line(redact(line, environ={}))[:300]
        if decision == "allow":
            self.notes.append(f"allow {line}")
        else:
            self.lost.append(f"{decision} {line}")

    def report_unknown_rules(self, line: str) -> None:
        """Report rules that cannot be read. What they limit is not known, so that no allow rule is taken."""
        self.lost.append(one_line(redact(line, environ={}))[:300])
        self._lost_rules.append("")
        self._leave_out_widened([*self._allowed], [""])

    def add_rules(self, decision: Decision, written: str, convert: Callable[[], Iterable[str]]) -> None:
        """Add the rules that `convert` returns for one of the other program, if all of them are rules of ours."""
        try:
            if redact(written, environ={}) != written:
                raise ValueError("seems to contain a key or another secret")
            rules = list(convert())
            for text in rules:
                parse_rule(decision, text, self.tools)
        except ValueError as error:
            self.report_lost_rule(decision, f"{written}: {error}")
            if decision != "allow":
                self._lost_rules.append(written)
                self._leave_out_widened([*self._allowed], [written])
            return
        self.rules |= dict.fromkeys((decision, text) for text in rules)
        if decision == "allow":
            self._allowed[written] = rules
            self._leave_out_widened([written], self._lost_rules)

    def _leave_out_widened(self, allowed: Sequence[str], lost: Sequence[str]) -> None:
        """Leave out allow rules that a lost rule of the same tool may have limited."""
        for written in allowed:
            limit = next((pattern or "that cannot be read" for pattern in lost if may_overlap(written, pattern)), "")
            if limit:
                for text in self._allowed.pop(written):
                    self.rules.pop(("allow", text), None)
                self.report_lost_rule(
                    "allow", f"{written}: would allow more in nexus, because the rule {limit} was not imported"
                )

    def add_server(self, name: str, entry: JsonDict) -> None:
        """Add a server without the keys in its entry: `command` (a list) or `url`, `env` and `headers` (objects)."""
        try:
            self._add_server(name, entry)
        except ValueError as error:
            self.notes.append(one_line(f"server {name}: {error}")[:300])

    def _add_server(self, name: str, entry: JsonDict) -> None:
        env, headers = entry.pop("env", None) or {}, entry.pop("headers", None) or {}
        if not isinstance(env, Mapping) or not isinstance(headers, Mapping):
            raise ValueError("env and headers must be objects")
        line = " ".join(map(str, [*entry.get("command", ()), entry.get("url", "")]))
        if is_key(line) or any(is_key(word) for word in line.replace("=", " ").split()):
            raise ValueError(
                "the command or address seems to contain a key: store the key with `nexus login NAME`, then add the "
                "server with `nexus mcp add`"
            )
        secret = [str(variable) for variable, value in env.items() if is_key(str(value), str(variable))]
        unsent = [str(header) for header, value in headers.items() if is_secret_header(str(header), str(value))]
        for secret_name in (*secret, *unsent):
            self._note_secret(name, secret_name)
        if env:
            entry["env"] = [
                *(f"{variable}={value}" for variable, value in env.items() if str(variable) not in secret),
                *secret,
            ]
        if header_lines := [f"{header}: {value}" for header, value in headers.items() if str(header) not in unsent]:
            entry["headers"] = header_lines
        names = FROM_ENVIRONMENT.findall(json.dumps(entry, default=str))
        parse_entry(name, entry, dict.fromkeys(names, "x"))
        self.servers[name] = entry

    def _note_secret(self, server: str, name: str) -> None:
        """Report a key in the environment or the headers of a server."""
        label, name = f"server {one_line(server)}", one_line(name)
        if re.fullmatch(r"[A-Za-z_]\w*", name) and name.upper() == name:
            self.notes.append(
                f"{label}: the value of {name} looks like a key and was not copied; run `nexus login {name}`"
            )
        else:
            hint = f'"{name}: Bearer ${{NAME}}" in its headers, and run nexus login NAME'
            self.notes.append(f"{label}: {name} looks like a key and was not copied; write {hint}")

    def note_key(self, name: str, location: str) -> None:
        """Report a key that is not copied, and how to keep it."""
        hint = describe_key_setup(name)
        self.notes.append(f"the value of {one_line(name)} in {location} looks like a key and was not copied; {hint}")

    def add_text(self, name: str, text: str, path: Path) -> None:
        """Add a command (`name`.md) or, with "", the instructions of a file; without the secrets in the text."""
        clean = redact(text, environ={})
        if clean != text:
            self.notes.append(f"{with_tilde(path)}: text that looks like a key was replaced by [redacted]")
        if name:
            self.commands[name] = clean
        else:
            self.instructions = clean.strip()

    def note_hooks(self, hooks: object) -> None:
        """Report hooks, which are not imported."""
        if hooks:
            events = ", ".join(map(str, hooks)) if isinstance(hooks, dict) else "?"
            self.note(
                f"hooks ({events[:120]}): hooks run commands; copy the hooks that you want (see `nexus docs hooks`)"
            )

    def note_folders(self, home: Path, *names: str) -> None:
        """Report folders with guides: used in place where the program keeps them by default."""
        usual = Path(home_folder(), f".{self.program}")
        for folder in (home / name for name in names):
            if folder.is_dir() and home == usual:
                self.in_place.append(
                    f"{folder.name} in {with_tilde(folder)} are used in place (see `nexus skill list`)"
                )
            elif folder.is_dir():
                self.note(f"{folder.name} in {folder}: copy or link them to {with_tilde(usual / folder.name)}")

    def note_unused(
        self, table: JsonObject, used: Iterable[str], location: str, hints: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Report keys of a table that nexus did not import: `hints` says what to do instead, by key; the others have
        no counterpart."""
        self.notes += [f"{key}: {hint}" for key, hint in hints.items() if key in table]
        if unused_keys := [one_line(str(key))[:40] for key in table if key not in {*used, *hints}]:
            self.notes.append(f"{location}: nexus has no equivalent of {', '.join(unused_keys[:30])}")


def server_entry(table: JsonObject, *keys: str) -> JsonDict:
    """Return `command` with its `args` as one list, and the given `keys` of a server's table as they are."""
    entry = {key: table[key] for key in keys if table.get(key)}
    if command := table.get("command"):
        entry["command"] = [*(as_texts(command) or [str(command)]), *as_texts(table.get("args"))]
    return entry


def as_texts(value: object) -> list[str]:
    """Return the entries of a list as texts, [] for anything else."""
    return [str(element) for element in value] if isinstance(value, list) else []


def is_key(value: str, name: str = "") -> bool:
    """Return True if a value with this name is a secret; a reference to a variable is not."""
    remainder = FROM_ENVIRONMENT.sub("", value).strip()
    if not remainder or _OPAQUE.fullmatch(remainder) or redact(remainder) != remainder:
        return bool(remainder)
    text = f"{name}: {remainder}"
    return remainder == value.strip() and (bool(NAMED_SECRET.search(name.upper())) or redact(text) != text)


def is_secret_header(name: str, value: str) -> bool:
    """Return True if a header has a secret: by its name any plain value is one, which no form may show."""
    return is_key(value, name) or bool(_SECRET_HEADER.search(name) and not FROM_ENVIRONMENT.search(value))


def may_overlap(rule: str, other_rule: str) -> bool:
    """Return True if rules of another program may name one call: tool and command word; "" is an unknown rule."""
    if not other_rule:
        return True
    (name, _, pattern), (other_name, _, other_pattern) = rule.partition("("), other_rule.partition("(")
    if name not in COMMAND_TOOLS or other_name not in COMMAND_TOOLS:
        edits = name in EDIT_TOOLS and other_name in EDIT_TOOLS
        return edits or fnmatchcase(name, other_name)
    first, second = (re.split(r"[\s:*)]", text.strip(), maxsplit=1)[0] for text in (pattern, other_pattern))
    return first.startswith(second) or second.startswith(first)
