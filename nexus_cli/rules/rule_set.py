"""The rules of a person and of a trusted project: `allow`, `ask` and `deny`, read, checked and matched.

deny wins over ask, ask over allow, whatever their order. A project's rules only tighten: its `allow` has no effect.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from nexus_cli.config import trust
from nexus_cli.config.load_settings import find_line, join_key, read_values, split_key
from nexus_cli.config.paths import Places, is_below, with_tilde
from nexus_cli.config.project_items import folders_between
from nexus_cli.config.project_settings import FILE, FOLDER
from nexus_cli.config.protected_places import fold_name, fold_path
from nexus_cli.config.setting_rules import SettingValue
from nexus_cli.config.worktree_record import find_source
from nexus_cli.core.elide import clip_text
from nexus_cli.core.errors import suggest_name
from nexus_cli.core.limits import Decision
from nexus_cli.core.path_globs import compile_signs
from nexus_cli.core.surrogates import mask_unprintable
from nexus_cli.core.tool import Effect, Reads, Tool
from nexus_cli.rules.address_rules import address_matches, refuse_bad_pattern
from nexus_cli.rules.bash_syntax import read_command_line
from nexus_cli.rules.claude_rules import claude_rules
from nexus_cli.rules.command_line import Word, Words
from nexus_cli.rules.readers import keeps_form
from nexus_cli.rules.wrappers import GIT_FLAGS, GIT_VALUED, program_name, system_name
from nexus_cli.text.hidden_signs import find_hidden_sign

if TYPE_CHECKING:
    from nexus_cli.config.trust_items import TrustItem

DECISIONS: tuple[Decision, ...] = ("deny", "ask", "allow")
"""From the strictest."""
Match = Literal["yes", "no", "maybe"]
MAX_OPTIONS = 30
"""Options before a subcommand of which each may have a value or none."""
MAX_NESTING = 6
"""Maximum number of `**` in a path pattern: each may double the ways to match."""
LONGEST_PATTERN = 4096
_SIGNS = re.compile(r"(\*\*/|\*\*|\*|\?)")
_COMPUTED = re.compile(r"[*?\[](?:.*[*?\]])?", re.DOTALL)
"""The part of a glob that stands for other text."""
_ANY, _SOME, _END, _MORE = "\x1f", "\x1e", "\0", "\x1d"
"""In texts that are compared: any text, with blanks and ends of words in it; any text in a word; the end of a word; the
end of a word that may be followed by further ones of the same form."""
_PLAIN = str.maketrans(dict.fromkeys((_ANY, _SOME, _MORE), "\ufffd"))
_RUNS_OF_ANY = re.compile(f"{_ANY}[{_ANY}{_SOME}]+")
_UNCLEAR = re.compile(r"[^\w./:=,-].*", re.DOTALL)
"""What is behind the beginning of a computed word that stands for itself."""
_GLOB_WORD = re.compile(f"(?:^|(?<=[{_ANY}{_END}{_MORE}]))[^{_ANY}{_END}{_MORE}]*{_MORE}")
CommandTexts = tuple[list[str], list[str]]
"""The texts by which rules know a command: without the folder of its program, and with it."""
MAX_GLOBS = 200
"""Most words with globs in a command that are compared with a pattern; the work grows with their number."""
_EDGES = r"(?<![\w.-])", r"(?![\w.-])"
"""Expressions for the edges of a word in text that is not read."""
SERVER_TOOLS = "mcp__"
"""The names of tools of MCP servers begin so; a rule may name all of a server: `mcp__github__*`."""
LONGEST_SERVER_TOOL = 64
"""Most characters of the name of such a tool: a longer one is cut, so that a rule for it would hold for none."""
_FORM = re.compile(r"(mcp__[\w.-]+\*?|[A-Za-z_][\w.-]*)(?:\((.*)\))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PermissionRule:
    """One rule."""

    json_fields: ClassVar = "decision rule:text file line from:origin folder:only_in"
    decision: Decision
    text: str
    """As it is written: `TOOL` or `TOOL(PATTERN)`."""
    tool: str
    pattern: str = ""
    """"" is every call of the tool."""
    argv: tuple[str, ...] = ()
    """For commands: the words that one begins with; `_ANY` for a `*` in them, which an allow rule does not have."""
    is_open: bool = True
    """For commands: further arguments may follow."""
    file: str = ""
    line: int = 0
    folder: str = ""
    """The folder for whose projects it counts, as it is written; "" is every one that reads the file."""
    names_commands: bool = False
    """True if its pattern names commands, and not paths."""
    effect: Effect | None = None
    """The effect of the tools that it holds for besides its own (`Tool.governs`); None: it holds for its own alone."""
    source: str = ""
    """In a worktree its source project: paths of a deny or ask rule begin there too."""
    lifts: bool = False
    """True if its commands also run with the network, or without the sandbox, when a call asks for that."""

    @property
    def origin(self) -> str:
        """File and line for a person."""
        location = f"{with_tilde(self.file)} line {self.line}" if self.line else with_tilde(self.file)
        return location or "this session"

    @property
    def label(self) -> str:
        """Decision, text and origin for a person."""
        return f"{self.decision} {self.text} ({self.origin})"

    @property
    def key(self) -> str:
        """Return the setting that lists it."""
        return rules_key(self.decision, self.folder)

    def names(self, tool: Tool) -> bool:
        """Return True if the rule names this tool, itself or among all of its server, whose name only a rule that
        allows has to spell in the same case."""
        fold = self.tool.startswith(SERVER_TOOLS) and self.decision != "allow"
        name = tool.name.casefold() if fold else tool.name
        tool_pattern = self.tool.casefold() if fold else self.tool
        return name == tool_pattern or (tool_pattern.endswith("*") and name.startswith(tool_pattern[:-1]))

    @property
    def only_in(self) -> str | None:
        """The folder to whose projects the rule applies; null for all projects."""
        return self.folder or None

    @property
    def program(self) -> str:
        """The program of a command's pattern, in lower case and without a folder; `rm*` is all that begin with `rm`."""
        name, star, _ = self.argv[0].partition(_ANY)
        return f"{name.rpartition('/')[2].casefold()}{'*' * bool(star)}"

    def match(self, texts: CommandTexts) -> Match:
        """Match a simple command; "maybe" if what bash computes decides."""
        patterns, expression = _compile_words(self.argv, self.is_open)
        forms = texts["/" in "".join(self.argv[:1])]
        if any(expression.match(text.replace(_MORE, _END)) for text in forms):
            return "yes"
        computed = [text for text in forms if {_ANY, _SOME} & set(text)]
        return "maybe" if any(_can_equal(text, pattern) for text in computed for pattern in patterns) else "no"

    def covers(self, words: Sequence[Word]) -> bool:
        """Return True if an allow rule names this command: program found by PATH, words exactly as written."""
        if not words or not all(word.is_known for word in words):
            return False
        name = words[0].text if "/" in "".join(self.argv[:1]) else system_name(words[0])
        fits = (not self.argv or name == self.argv[0]) and self.match(command_texts(words)) == "yes"
        return fits and (not self.is_open or keeps_form(self.argv, tuple(words)))

    def is_shown(self, text: str, *, partly: bool = False) -> bool:
        """Return True if every word (`partly`: a word) of the command that the rule names occurs in `text`, with an
        edge of a word where it has no `*`."""
        begins, ends = _EDGES
        parts = (part for word in self.argv for part in f"{begins}{re.escape(word.casefold())}{ends}".split(_ANY))
        occurrences = [re.search(part, text.casefold()) for part in parts if part not in ("", *_EDGES)]
        return any(occurrences) if partly else all(occurrences)


@dataclass(frozen=True, slots=True)
class RuleSet:
    """All rules in force."""

    rules: tuple[PermissionRule, ...] = ()
    problems: tuple[str, ...] = ()
    """One line for each rule that is not in force, with file and line."""
    broken: tuple[str, ...] = ()
    """Places of deny and ask rules for commands that cannot be read: until they are mended every command asks."""
    unread_denials: tuple[str, ...] = ()
    """Those of `problems` that are deny rules: at a level at which nothing asks they would leave a call unguarded."""

    def listed(self) -> list[PermissionRule]:
        """Return all rules, the strictest first."""
        return sorted(self.rules, key=lambda rule: DECISIONS.index(rule.decision))

    def of(self, decision: Decision, effect: Effect = Effect.RUN) -> list[PermissionRule]:
        """Return the rules of one decision that hold for all tools of an effect."""
        return [rule for rule in self.rules if rule.decision == decision and rule.effect is effect]

    def for_commands_of(self, tool: Tool) -> RuleSet:
        """Return the rules as they decide on the commands of `tool`: its own count as those for all commands do."""
        if tool.governs:
            return self
        effective = (replace(rule, effect=tool.effect) if rule.names(tool) else rule for rule in self.rules)
        return replace(self, rules=tuple(effective))

    def find_for_path(
        self, tool: Tool, paths: Sequence[Path], project: Path, added: Sequence[Path] = ()
    ) -> PermissionRule | None:
        """Return the rule that decides on a call of `tool`: deny or ask for any of `paths`, allow for all.

        `paths` and the `added` folders are resolved. None: no rule says anything.
        """
        candidates = [rule for rule in self.rules if rule.names(tool)]
        general = [] if tool.governs else [rule for rule in self.rules if rule.effect is tool.effect]
        if tool.reads_content or tool.effect is Effect.EDIT:
            candidates += [rule for rule in general if rule.pattern or rule.decision != "allow"]
            if tool.effect is Effect.EDIT and tool.reads is Reads.CONTENT:
                candidates += self.of("deny", Effect.READ)
        elif tool.effect is Effect.RUN:  # it has no command line to compare with a pattern
            candidates += [rule for rule in general if not rule.pattern and rule.decision != "allow"]
        permission_rule = find_by_path(candidates, paths, project, added)
        if (
            permission_rule is None and tool.finds_files
        ):  # a deny rule is for the tool to obey: it leaves those files out
            general_rule = find_by_path(general, paths, project, added)
            if general_rule is not None and general_rule.decision == "allow" and general_rule.pattern:
                return general_rule
        return permission_rule

    def find_for_text(self, tool: Tool, text: str) -> PermissionRule | None:
        """Return the rule that decides on a call of `tool` to a network address, or for an agent or skill of this name;
        None: no rule says anything."""
        matches = address_matches if tool.reaches else name_matches
        candidates = [rule for rule in self.rules if rule.names(tool)]
        rules = [rule for rule in candidates if not rule.pattern or matches(rule.decision, rule.pattern, text)]
        return min(rules, key=lambda rule: (DECISIONS.index(rule.decision), not rule.pattern), default=None)

    def deny_rules_for_search(self, tool: Tool) -> RuleSet:
        """Return the deny rules that keep a file from a search by `tool`: its own, and of one that shows content those
        for reading."""
        shows = tool.effect is Effect.READ and tool.reads in (Reads.CONTENT, Reads.SEARCH) and not tool.governs
        rules = (rule for rule in self.rules if rule.names(tool) or (shows and rule.effect is tool.effect))
        return replace(self, rules=tuple(rule for rule in rules if rule.decision == "deny"))


def name_matches(decision: str, pattern: str, name: str) -> bool:
    """Return True if the pattern of a rule names an agent or skill by its whole name; `*` is any text. deny and ask
    rules name one of a plugin also without `PLUGIN:`."""
    if decision == "allow":
        return fnmatch.fnmatchcase(name, pattern)
    folded_pattern, folded = pattern.casefold(), name.casefold()
    forms = (folded, folded.rpartition(":")[2])
    return any(fnmatch.fnmatchcase(form, folded_pattern) for form in forms)


def find_by_path(
    rules: Iterable[PermissionRule], paths: Iterable[Path], project: Path, added: Sequence[Path]
) -> PermissionRule | None:
    """Return the strictest of `rules` that names any of the real `paths`, if it allows all of them; None for none."""
    path_texts = [str(path) for path in paths]
    roots = (str(project), *map(str, added))
    for rule in sorted(rules, key=lambda rule: DECISIONS.index(rule.decision)):
        fits = [not rule.pattern or path_matches(rule, path, *roots) for path in path_texts] or [not rule.pattern]
        if all(fits) if rule.decision == "allow" else any(fits):
            return rule
    return None


@lru_cache(512)
def _compile_words(argv: tuple[str, ...], is_open: bool) -> tuple[list[str], re.Pattern[str]]:
    """Return the patterns of a command, one for each case in which `command_texts` may have the name of its program,
    and the expression for the texts that they fit."""
    first = "".join(argv[:1])
    name, star, name_end = first.partition(_ANY)  # a `*` may stand for the end of the name, or for all of it and more
    patterns = []
    for program in dict.fromkeys((first, f"{name.casefold()}{star}{name_end}", first.casefold() if name else first)):
        words = "".join(f"{word}{_END}" for word in (program, *argv[1:]) if argv)
        patterns.append(words.removesuffix(_END) if words.endswith(_ANY + _END) else words + _ANY * is_open)
    return patterns, re.compile("|".join(fnmatch.translate(escape(pattern).replace(_ANY, "*")) for pattern in patterns))


def command_texts(words: Sequence[Word]) -> CommandTexts:
    """Return the texts of a command that rules match: its words, each with its end, with `_ANY` or `_SOME` for what
    bash computes; each text as it is written, and with the name of the program in lower case."""
    arguments = "".join(map(_shape, words[1:]))
    names = ("".join(_shape(word, is_program=is_program) for word in words[:1]) for is_program in (True, False))
    short, full = ([f"{form}{arguments}" for form in dict.fromkeys((name, name.casefold()))] for name in names)
    return [_RUNS_OF_ANY.sub(_ANY, text) for text in short], [_RUNS_OF_ANY.sub(_ANY, text) for text in full]


def _shape(word: Word, *, is_program: bool = False) -> str:
    """Return the text of a word with its end, of a program without its folder."""
    written = word.text.translate(_PLAIN)
    _, slash, name = written.rpartition("/")
    text = name if is_program else written
    if word.is_known:
        return f"{_COMPUTED.sub(_SOME, text)}{_MORE}" if word.has_glob else f"{text}{_END}"
    start = "" if is_program else _UNCLEAR.sub("", text.removeprefix('"'))
    if word.is_single and slash and not {"$", "`", ")", "}", "]"} & set(name):
        end = name.replace('"', _END)
        return end if is_program else f"{start}{_SOME}/{end}"
    return f"{start}{_SOME}{_END}" if word.is_single else f"{start}{_ANY}{_END * bool(start)}"


def _can_equal(text: str, pattern: str) -> bool:
    """Return True if a text exists that both stand for, or `text` has too many globs to tell. The places of `text` that
    the signs of `pattern` lead to are the bits of one number: all of them are followed at once."""
    if text.count(_MORE) > MAX_GLOBS:
        return True
    anything = _find_places(text, _ANY)
    computed = anything | _find_places(text, _SOME)
    ends = _find_places(text, _END) | _find_places(text, _MORE)
    further = [match.span() for match in _GLOB_WORD.finditer(text)]
    reached = 1
    for sign in pattern:
        reached |= (reached & computed) << 1  # it may be empty
        if sign == _ANY:
            reached = -(reached & -reached)  # the first place, and all behind it
        else:
            fits, stays = (ends, anything) if sign == _END else (_find_places(text, sign), computed)
            reached = (reached & fits) << 1 | (reached & stays)
        for start, end in further:
            reached |= (reached >> end & 1) << start
        if not reached:
            return False
    return (reached | (reached & computed) << 1) >> len(text) != 0


@lru_cache(1024)
def _find_places(text: str, sign: str) -> int:
    """Return a number with a bit for each place of `sign` in `text`."""
    return int("".join("01"[char == sign] for char in reversed(text)), 2)


def readings(words: Words) -> list[tuple[Words, bool]]:
    """Return `words`, and without the options before a subcommand, as deny and ask rules read them.

    False beside a reading: it takes an option's value by guess.
    """
    forms = [(words, True)]
    if len(words) > 1 and not words[0].is_single:  # bash may make nothing of it
        forms.append((words[1:], False))
    if len(words) < 3 or not words[1].text.startswith(("-", "+")):
        return forms
    is_git = program_name(words[0]) == "git"
    place = 1
    while place < len(words) and words[place].text.startswith(("-", "+")):
        text = words[place].text
        place += 1
        if is_git and text in GIT_VALUED:
            place += 1
        elif (not is_git or (text not in GIT_FLAGS and "=" not in text)) and place <= MAX_OPTIONS:
            forms.append(((words[0], *words[place + 1 :]), False))
    forms.append(((words[0], *words[place:]), True))
    return forms


def parse_rule(
    decision: Decision, text: str, tools: Mapping[str, Tool], file: str = "", line: int = 0
) -> PermissionRule:
    """Return the rule that `text` is; raise `ValueError` with one line that says what is wrong."""
    match, quoted = _FORM.fullmatch(text.strip()), _quote(text)
    if match is None or find_hidden_sign(text):
        raise ValueError(f"{quoted} is not a rule; expected TOOL or TOOL(PATTERN), such as bash(npm test *)")
    name = match[1]
    pattern = match[2]
    tool = tools.get(match[1])
    if tool is None and name.startswith(SERVER_TOOLS):
        if pattern is not None:
            raise ValueError(f"{quoted}: rules for MCP tools cannot have a pattern")
        if len(name) > LONGEST_SERVER_TOOL:
            excess = f"more than {LONGEST_SERVER_TOOL} characters, the maximum for an MCP tool"
            raise ValueError(f"{quoted} has {excess}: use the name of the server, or the tool name that the model uses")
        return PermissionRule(decision, text.strip(), name, file=file, line=line)
    if tool is None:
        raise ValueError(f"{quoted} does not name a tool. {suggest_name(name, tools, '', 0.4)}".rstrip(". "))
    rule = PermissionRule(
        decision,
        text.strip(),
        name,
        file=file,
        line=line,
        names_commands=tool.runs_commands,
        effect=tool.effect if tool.governs else None,
    )
    if pattern is None:
        return rule
    if not pattern.strip():
        raise ValueError(f"{quoted} has an empty pattern; {name} without a pattern matches every call")
    if tool.runs_commands:
        return _with_command_pattern(rule, pattern)
    if not (tool.paths or tool.reaches or tool.named[0]):
        raise ValueError(f"{quoted}: rules for {name} cannot have a pattern")
    if pattern.count("**") > MAX_NESTING or len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"{quoted} is too long, or contains `**` more than {MAX_NESTING} times")
    pattern = pattern.strip()
    if tool.named[0] and re.search(r"[\s?\[]", pattern):
        raise ValueError(
            f"{quoted}: names of agents and skills cannot contain spaces, `?` or `[`; use `*` to match any text"
        )
    if tool.reaches and ("://" in pattern or not tool.paths):
        address = pattern if "://" in pattern else f"https://{pattern}"
        pattern = address if decision == "allow" else pattern  # the others name a host by every scheme
        try:
            refuse_bad_pattern(decision, address)
        except ValueError as error:
            raise ValueError(f"{quoted}: {error}") from None
    return replace(rule, pattern=pattern)


def _with_command_pattern(rule: PermissionRule, pattern: str) -> PermissionRule:
    """Return the rule with the words of a command pattern, which may have `*` in them, for allow alone at the end."""
    tool, quoted, line = rule.tool, _quote(rule.text), read_command_line(pattern)
    if len(line.commands) != 1 or line.doubts or line.forms or line.redirects or line.commands[0].assignments:
        raise ValueError(f"{quoted} is not a single command without expansions, redirections or assignments")
    words = line.commands[0].words
    is_open = words[-1].text == "*" and words[-1].has_glob
    words = words[:-1] if is_open else words
    starred = [word.text for word in words if word.has_glob]
    wrong = next((text for text in starred if rule.decision == "allow" or re.search(r"[?\[]|:\*$", text)), "")
    if wrong:
        claude = wrong.removesuffix(":*") if wrong.endswith(":*") else ""
        alone = "`*` must be a separate, final word" if rule.decision == "allow" else "use `*` to match any text"
        advice = f"write {tool}({claude} *)" if claude else alone
        raise ValueError(f"{quoted} contains {_quote(wrong)}: {advice}")
    argv = tuple(word.text.replace("*", _ANY) if word.has_glob else word.text for word in words)
    return replace(rule, pattern=pattern, argv=argv, is_open=is_open)


def read_rules(folders: Places, project: Path, tools: Mapping[str, Tool], cwd: Path | None = None) -> RuleSet:
    """Return the rules of the personal config.toml, and those of the project's that are trusted: with `cwd` also those
    of Claude's and codex's in the folders down to it.

    In a worktree those of its source project count too, whatever became of their files in the worktree; what rules deny
    there is denied here, and the reverse.
    `tools` are those that a rule may name. A wrong rule is a line of `problems`. Raises `NexusError("config", ...)`
    as `config.settings.read_values` does.
    """
    collected = _Collector(tools)
    values = read_values(folders.settings)
    text = folders.settings.read_bytes().decode("utf-8-sig", "replace") if folders.settings.is_file() else ""
    source = find_source(project, folders)
    for folder in ("", *_folders_around(source, values)):
        collected.add_file(values, text, str(folders.settings), DECISIONS, folder)
    for key, examples in values.items():
        name = split_key(key)
        if name[0] == "rule_examples" and isinstance(examples, tuple):
            collected.check_examples(
                name[1], examples, f"{folders.settings} line {find_line(text, name) or 1}", project
            )
    inner = [str(below.relative_to(project)) for below in folders_between(project, cwd or project)]
    for root in dict.fromkeys((source, project)):
        collected.add_project(root)
        for name_inside in inner:
            collected.add_project(root, name_inside)
    rules = collected.rules
    if source != project:
        rules = [replace(rule, source=str(source)) for rule in (*rules, *_rules_of_worktree(rules, source))]
    return RuleSet(tuple(rules), tuple(collected.problems), tuple(collected.broken), tuple(collected.unread))


def _begin_in(rule: PermissionRule, inner: str) -> PermissionRule:
    """Return a rule of a folder of the project, whose path begins there."""
    is_inside = "/" in rule.pattern.rstrip("/") and not rule.names_commands and not rule.pattern.startswith(("/", "~"))
    return replace(rule, pattern=f"./{inner}/{rule.pattern.removeprefix('./')}") if is_inside else rule


def _rules_of_worktree(rules: Iterable[PermissionRule], source: Path) -> list[PermissionRule]:
    """Return the deny and ask rules that name places of `source` by absolute paths, for the same places here."""
    permission_rules = []
    for rule in rules:
        if rule.decision != "allow" and not rule.names_commands and rule.pattern.startswith(("/", "~")):
            inside = _cut_pattern(os.path.expanduser(rule.pattern), source)
            permission_rules += [replace(rule, pattern=inside)] if inside else []
    return permission_rules


def _cut_pattern(pattern: str, folder: Path) -> str:
    """Return an absolute pattern as it reads from `folder`; "" if it names nothing in there."""
    parts = [part for part in pattern.split("/") if part]
    for place, name in enumerate(folder.parts[1:]):
        if place == len(parts) or "**" in parts[place]:
            return "/".join(parts[place:]) or "**"
        if not fnmatch.fnmatchcase(fold_name(name), fold_name(parts[place]).replace("[", "[[]")):
            return ""
    return "/".join((".", *parts[len(folder.parts) - 1 :])) if len(parts) >= len(folder.parts) else "**"


@dataclass(slots=True)
class _Collector:
    """Rules on their way from files."""

    tools: Mapping[str, Tool]
    rules: list[PermissionRule] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    items: dict[str, TrustItem] = field(default_factory=dict)
    """The trusted items whose rules were added."""

    def add_project(self, project: Path, inner: str = "") -> None:
        """Add the trusted rules of a project that were not added before; with `inner` those of this folder in it,
        whose paths begin there, without those of `.nexus`."""
        root = project / inner
        configuration = trust.read_configuration(root, ("rule",))
        trusted = {f"{inner}\n{key}": item for key, item in trust.trusted_items(root, configuration).items()}
        items = {key: item for key, item in trusted.items() if key not in self.items}
        self.items |= items
        rules = [item for item in items.values() if item.kind == "rule" and not (inner and item.file == FILE)]
        own_rules = [item.definition.removesuffix("\n").partition(" ") for item in rules if item.file == FILE]
        values = {rules_key(kind): tuple(rule for of, _, rule in own_rules if of == kind) for kind in ("deny", "ask")}
        text = configuration.files.get(FILE, b"").decode("utf-8-sig", "replace")
        self.add_file(values, text, str(root / FOLDER / FILE), ("deny", "ask"))
        for decision, rule, file in claude_rules(rules):
            with suppress(ValueError):  # `nexus trust` has told it
                read = parse_rule(decision, rule, self.tools, str(root / file))
                self.rules.append(_begin_in(read, inner) if inner else read)

    def add_file(
        self,
        values: Mapping[str, SettingValue],
        text: str,
        file: str,
        decisions: tuple[Decision, ...],
        folder: str = "",
    ) -> None:
        """Add the rules of one file: those of all projects, or of the projects in `folder`."""
        first = len(self.rules)
        for decision in decisions:
            listed = values.get(rules_key(decision, folder))
            for written in listed if isinstance(listed, tuple) else ():
                line = _line_of_rule(text, split_key(rules_key(decision, folder)), written)
                try:
                    self.rules.append(replace(parse_rule(decision, written, self.tools, file, line), folder=folder))
                except ValueError as error:
                    self.problems.append(f"{file} line {line}: {decision} {error}")
                    self.unread += self.problems[-1:] if decision == "deny" else []
                    tool = self.tools.get(written.partition("(")[0].strip())
                    if decision != "allow" and (tool is None or tool.runs_commands):
                        self.broken.append(f"{with_tilde(file)} line {line}")
        mine = self.rules[first:]
        for rule in mine:
            stricter = next((permission_rule for permission_rule in mine if _overrides(permission_rule, rule)), None)
            if stricter is not None:
                self.problems.append(
                    f"{file} line {rule.line}: {rule.decision} {_quote(rule.text)} has no effect: "
                    f"{stricter.decision} {_quote(stricter.text)} on line {stricter.line} overrides it"
                )

    def check_examples(self, written: str, examples: tuple[str, ...], location: str, project: Path) -> None:
        """Compare a rule with its examples; one that begins with `!` must not match."""
        rule = next((permission_rule for permission_rule in self.rules if permission_rule.text == written), None)
        if rule is None:
            hint = suggest_name(written, [permission_rule.text for permission_rule in self.rules], "", 0.4)
            problem = f"{location}: no rule {_quote(written)} exists for these examples. {hint}"
            self.problems.append(problem.rstrip(". "))
            return
        for example in examples:
            unwanted = example.startswith("!")
            body = example.removeprefix("!").strip()
            if _fits_example(rule, body, project) == unwanted:
                verb = "matches" if unwanted else "does not match"
                self.problems.append(f"{location}: {_quote(written)} {verb} its example {_quote(body)}")


def _fits_example(rule: PermissionRule, body: str, project: Path) -> bool:
    if not rule.names_commands:
        return not rule.pattern or path_matches(rule, os.path.join(project, os.path.expanduser(body)), str(project))
    commands = [command.words for command in read_command_line(body).commands]
    if rule.decision == "allow":
        return any(rule.covers(words) for words in commands)
    return any(
        rule.match(command_texts(words)) == "yes" for command in commands if command for words, _ in readings(command)
    )


def _overrides(strict: PermissionRule, rule: PermissionRule) -> bool:
    """True if the stricter rule `strict` decides wherever `rule` would."""
    if strict.tool != rule.tool or DECISIONS.index(strict.decision) >= DECISIONS.index(rule.decision):
        return False
    if not strict.pattern or strict.pattern == rule.pattern:
        return True
    if not strict.names_commands or not rule.pattern:
        return False
    same_words = rule.argv[: len(strict.argv)] == strict.argv
    return same_words and (strict.is_open or (len(rule.argv) == len(strict.argv) and not rule.is_open))


def rules_key(decision: str, folder: str = "") -> str:
    """Return the setting that lists rules of a decision, for every project or for those in `folder`."""
    return join_key(["rules", *([folder] if folder else []), decision])


def _folders_around(project: Path, values: Iterable[str]) -> list[str]:
    """Return the folders of `[rules."FOLDER"]` that the project is or lies in, as they are written."""
    rule_folders = dict.fromkeys(
        parts[1] for key in values if len(parts := split_key(key)) == 3 and parts[0] == "rules"
    )
    return [folder for folder in rule_folders if project.is_relative_to(os.path.realpath(os.path.expanduser(folder)))]


def _line_of_rule(text: str, key: list[str], written: str) -> int:
    """Return the line of a rule in the text of its file, or that of its list."""
    start = find_line(text, key) or 1
    escaped = written.replace("\\", "\\\\").replace('"', '\\"')
    quoted = f"'{written}'", f'"{escaped}"'
    for number, line in enumerate(text.splitlines()[start - 1 :], start):
        if any(quoted_text in line for quoted_text in quoted):
            return number
    return start


def path_matches(rule: PermissionRule, path: str, project: str, *added: str) -> bool:
    """True if the path pattern of `rule` names the real `path` or a folder above it.

    `*` stays within one name, `**` does not. A pattern without `/` counts in every folder, `~/` and `/` begin it at
    home and at the root, all others at the project. An allow rule names a path exactly; deny and ask rules begin in the
    `added` folders and the rule's `source` too, and name a path also as the most lenient file system reads it
    (`fold_name`).
    """
    pattern = os.path.expanduser(rule.pattern)
    bases: tuple[str, ...] = (project,) if rule.decision == "allow" else (project, *added, *filter(None, [rule.source]))
    if pattern.startswith("/"):
        bases = ("/",)
    if any(_is_named(path, base, _compile_pattern(pattern)) for base in bases):
        return True
    if rule.decision == "allow":
        return False
    folded = fold_path(path)
    expression = _compile_pattern(pattern, folds=True)
    return any(_is_named(folded, fold_path(base), expression) for base in bases)


def whole_path_pattern(rule: PermissionRule, *roots: str) -> str:
    """Return a regular expression for the folded real paths that the pattern of a deny rule names below `roots`."""
    pattern = os.path.expanduser(rule.pattern)
    bases = ("",) if pattern.startswith("/") else roots
    below = "|".join(re.escape(fold_path(base).rstrip("/")) for base in bases)
    return f"(?s:(?:{below})/(?:{_compile_pattern(pattern, folds=True).pattern}))"


def _is_named(path: str, base: str, expression: re.Pattern[str]) -> bool:
    return is_below(path, base) and bool(expression.match(path, len(base if path == base else base.rstrip("/") + "/")))


@lru_cache(512)
def _compile_pattern(pattern: str, *, folds: bool = False) -> re.Pattern[str]:
    """Return the expression of a path pattern, for paths as they are below the folder that it begins at."""
    glob = pattern.removeprefix("./") if "/" in pattern.rstrip("/") else f"**/{pattern}"
    glob = glob.lstrip("/").rstrip("/").removesuffix("/**")  # the folder itself: a search of it reads what is in it
    glob = fold_path(glob) if folds else glob
    while "**/**/" in glob:
        glob = glob.replace("**/**/", "**/")
    expressions = [compile_signs(signs, r"/|\Z").pattern for signs in _readings_of(_SIGNS.split(glob))]
    return re.compile("|".join(expressions), re.DOTALL)


def _readings_of(signs: list[str]) -> list[list[str]]:
    """Return the signs of a pattern, once for each reading of a `**/` within a name: as nothing, or as `**` and `/`."""
    partial_readings: list[list[str]] = [[]]
    for place, sign in enumerate(signs):
        before = "".join(signs[:place])
        if sign != "**/" or not before or before.endswith(("/", "**")):
            partial_readings = [[*partial_reading, sign] for partial_reading in partial_readings]
        else:
            partial_readings = [
                [*partial_reading, *reading] for partial_reading in partial_readings for reading in ([], ["**", "/"])
            ]
    return partial_readings


def _quote(text: str) -> str:
    printable = mask_unprintable(text)
    return f"`{clip_text(printable, 80, '...')}`"
