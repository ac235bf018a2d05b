"""Decide on a command line: allow, ask or deny, in which profile, by which rule.

A deny rule looks at every command found anywhere in the line; a line only reads if every part does. What is more than
plain commands asks, but never ends the search for a denied one. Pure but for looking where paths lead.
"""

from __future__ import annotations

import os
import shlex
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from nexus_cli.core.approval import NETWORK, NO_SANDBOX, OUTSIDE
from nexus_cli.core.limits import ALL, AUTO, UNASKED, Decision
from nexus_cli.core.tool import Effect
from nexus_cli.rules.bash_syntax import VARIABLE, read_command_line
from nexus_cli.rules.command_line import CommandLine, SimpleCommand, Word, shorten
from nexus_cli.rules.folders import Folders, NotReadOnly
from nexus_cli.rules.foreign_code import sets_program
from nexus_cli.rules.passed_commands import find_passed
from nexus_cli.rules.reader_options import can_write_nothing, is_reader, reaches_unnamed
from nexus_cli.rules.readers import check_input, check_read_only, find_shown_files, keeps_form
from nexus_cli.rules.rule_set import CommandTexts, PermissionRule, RuleSet, command_texts, find_by_path, readings
from nexus_cli.rules.stored_prefix import find_prefix
from nexus_cli.rules.wrappers import SHELLS, find_inner, find_wrapper, program_name, skip_options, system_name
from nexus_cli.rules.written_files import find_written
from nexus_cli.text.hidden_signs import find_hidden_sign

Profile = Literal["read", "write", "net", "none"]

MAX_INNER = 500
"""Commands inside one command that are looked at; with more it hides something."""
MAX_INNER_OF_LINE = 5_000
"""The same for the whole line, beyond one for each command."""
DEEPEST = 5
STRICT: tuple[Decision, ...] = ("deny", "ask")
"""Decisions of the rules that restrict a command."""
_SHELL_STATE = frozenset(
    """
    cd pushd popd source . eval builtin exec set shopt alias unalias export declare typeset local readonly unset
    enable hash trap ulimit umask read mapfile
    """.split()
)
"""Commands that change the shell itself: what follows one may not be what it seems."""


@dataclass(frozen=True, slots=True)
class CommandPart:
    """One simple command of a line, and what decided on it."""

    json_fields: ClassVar = "command decision rule from:source"
    command: tuple[str, ...]
    decision: Decision
    rule: str | None
    """The rule as it is written; null if none decided."""
    source: str
    """`built in`, `level ask`, or file and line of the rule."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class CommandDecision:
    """The decision on a whole line."""

    json_fields: ClassVar = "decision profile parts why"
    decision: Decision
    profile: Profile
    """The sandbox profile it would run in."""
    parts: tuple[CommandPart, ...]
    why: str
    """One line."""
    prefixes: tuple[str, ...] = ()
    """Allow rules that "always" would store, one for each part that asks; () where that must not be offered."""
    doubts: tuple[str, ...] = ()
    """Reasons to ask that are not in a part of the line: "a possibly endless loop"."""


def decide_command(
    command: str,
    *,
    level: str,
    rules: RuleSet,
    cwd: Path,
    project: Path,
    confined: bool,
    hides: bool = False,
    added: Iterable[Path] = (),
    network: bool = False,
    writes: bool = False,
    outside: str = "",
) -> CommandDecision:
    """Return the decision on `command`, run in `cwd` under `level`.

    The `added` folders count like the project.
    `confined` is False where the system has no sandbox, `hides` is True where it hides all files that deny rules name:
    then a word that is not known before the command runs does not ask for such a rule. `network`, `writes` and
    `outside` (a reason) are what the call asks for.
    """
    line = read_command_line(command)
    search = _Search(rules, level, command, hides=hides and confined and not outside)
    folders = Folders.of(cwd, project, line, added)
    looks = [
        (
            _find_reason(simple_command, line, search, folders, writes=writes),
            _find_restriction(simple_command, line, search, folders) if search.has_rules else None,
        )
        for simple_command in line.commands
    ]
    closed = _closed_redirects(line, search, folders) if search.has_rules else []
    only_reads = not closed and not any(reason or restricted for reason, restricted in looks)
    hidden = _find_hidden(command, line, search) if search.strict else []
    if any(binding.name in os.environ for binding in line.bindings):
        line.doubts["an assignment to an environment variable"] = None
    redirects = _check_redirects(line, folders)
    ask_reasons = [*line.doubts, *redirects]
    printed = {VARIABLE} if _only_prints_variables(line, looks) else set()
    doubts = [*ask_reasons, *([] if only_reads else [form for form in line.forms if form not in printed])]
    if not doubts and not looks and not hidden:
        doubts = ask_reasons = ["no command to run"]
    profile: Profile = "none" if level == ALL or outside or not confined else "net" if network else "write"
    if profile == "write" and only_reads and not doubts:
        profile = "read"
    judged = [
        restricted or _judge(simple_command, reason, profile, search)
        for simple_command, (reason, restricted) in zip(line.commands, looks, strict=True)
    ]
    parts = [*judged, *closed, *hidden]
    denied = next((part for part in parts if part.decision == "deny"), None)
    if denied is not None:
        return CommandDecision("deny", profile, tuple(parts), denied.why)
    asks = [] if level == ALL else _find_reasons(command, line, doubts, parts, level, rules)
    wishes = _find_requested_rights(confined, network, outside)
    if (
        wishes
        and not doubts
        and not any(redirect.opens_file for redirect in line.redirects)
        and _all_lift_sandbox(parts, rules)
    ):
        wishes = []
    if level != ALL and (asks or wishes):
        stored = () if wishes or doubts or rules.broken else _prefixes(line.commands, parts)
        why = "; ".join([*dict.fromkeys([*wishes, *asks])][:3])
        return CommandDecision("ask", profile, tuple(parts), why, stored, tuple(ask_reasons) if level != AUTO else ())
    ruled = next((part for part in parts if part.rule), None)
    why = "; ".join([_explain_allow(level, profile, ruled), *redirects])
    return CommandDecision("allow", profile, tuple(parts), why)


def _only_prints_variables(line: CommandLine, looks: Iterable[tuple[str, CommandPart | None]]) -> bool:
    """Return True if all words that bash computes are those of readers that run beside commands that write, as in
    `make; echo $?`."""
    computed = [
        (command, reason or restricted)
        for command, (reason, restricted) in zip(line.commands, looks, strict=True)
        if not all(word.is_known for word in command.words)
    ]
    return not line.inputs and all(not why and can_write_nothing(word) for word, why in computed)


def _all_lift_sandbox(parts: Sequence[CommandPart], rules: RuleSet) -> bool:
    """Return True if rules that lift the sandbox allow every part."""
    lifting = {(rule.text, rule.origin) for rule in rules.of("allow") if rule.lifts}
    return bool(parts) and all(part.decision == "allow" and (part.rule, part.source) in lifting for part in parts)


def _find_reason(command: SimpleCommand, line: CommandLine, search: _Search, folders: Folders, *, writes: bool) -> str:
    """Return the reason that a command does not run as a reader, "" if it does. Follows a `cd` in `folders`."""
    if search.level == ALL or line.is_long:
        reason = "the line is too long to be checked as read-only"
        if command.words and program_name(command.words[0]) == "cd":
            with suppress(NotReadOnly):
                folders.enter(command)
    else:
        reason = check_read_only(command, folders) or ("the call asks for write access" if writes else "")
    if reason and command.words and program_name(command.words[0]) in _SHELL_STATE:
        folders.is_lost = True
    strict = () if reason else (*search.strict, *search.reads)
    passed = next((rule for rule in strict if reaches_unnamed(command, rule.effect)), None)
    if passed is not None:
        reason = f"the command may match {passed.decision} {passed.text}: its arguments are not known in advance"
    return reason


def _find_restriction(
    command: SimpleCommand, line: CommandLine, search: _Search, folders: Folders
) -> CommandPart | None:
    """Return the part of a command that a deny or ask rule names, by its words or by the files that it names."""
    words = tuple(word.text for word in command.words)
    restriction = search.find(command, line.inputs) if search.strict else None
    if restriction is not None:
        return CommandPart(words, *restriction)
    written = find_written(command, (), search.writes, folders)
    if written is not None:
        return _make_part(words, written, f"the command writes a file covered by {written.label}")
    is_all = search.level == ALL
    closed = _find_closed_file(command.words[1:], search, folders, [folders.assumed])
    is_plain = all(word.is_plain for word in command.words)
    is_denied = closed is not None and closed.decision == "deny" and is_plain and is_reader(command.words)
    if is_denied and not is_all:  # where nobody can be asked, a word that may be a pattern is enough
        closed_rule = _find_closed_file(find_shown_files(command.words), search, folders, [folders.assumed])
        is_denied = closed_rule is not None and closed_rule.decision == "deny"
    if closed is not None and (is_denied or not is_all):
        may = "reads" if is_denied and not is_all else "may read"
        return _make_part(words, closed, f"the command {may} a file covered by {closed.label}", is_sure=is_denied)
    return None


def _make_part(words: tuple[str, ...], rule: PermissionRule, why: str, *, is_sure: bool = True) -> CommandPart:
    """Return the part of a line that a deny or ask rule names; unless that `is_sure`, it asks."""
    return CommandPart(words, rule.decision if is_sure else "ask", rule.text, rule.origin, why)


def _judge(command: SimpleCommand, reason: str, profile: Profile, search: _Search) -> CommandPart:
    """Return the part of a command in a line that runs in `profile`; `reason`: it does not run as a reader.

    With writes a reader is free only if it can write nothing and start no program. With the network, or without a
    sandbox, the line asks whatever its parts are.
    """
    level, words = search.level, tuple(word.text for word in command.words)
    is_free = not reason and (profile != "write" or can_write_nothing(command))
    # A rule that names a reader too lets it have the network, or run outside the sandbox.
    is_asked = level != ALL and not (is_free and profile in ("read", "write"))
    allowed = find_allow(command, search.rules) if is_asked else None
    if allowed is not None and (allowed.lifts or not is_free):
        return CommandPart(words, "allow", allowed.text, allowed.origin)
    if is_free:
        return CommandPart(words, "allow", None, "built in", "the command only reads")
    if level in UNASKED:
        return CommandPart(words, "allow", None, f"level {level}")
    texts = command_texts(command.words)
    narrow = next((rule for rule in search.rules.of("allow") if rule.match(texts) == "yes"), None)
    if reason and narrow is not None and not command.assignments:
        reason = f"allow {narrow.text} covers only read-only use, and {reason}"
    why = reason or f"{shorten(words[0])} needs approval unless the whole command line is read-only"
    return CommandPart(words, "ask", None, f"level {level}", why)


def _find_hidden(command: str, line: CommandLine, search: _Search) -> list[CommandPart]:
    """Return the parts that a deny or ask rule names in text of the line that the parser may have read otherwise."""
    parts = []
    # Bash joins lines that the parser may have split, and splits those that begin with a backslash.
    repaired = command.replace("\\\n", "").replace("\n\\", "\n \\")
    further = [*line.codes, *([repaired] if repaired != command else [])]
    line.is_unclear = line.is_unclear or len(further) > MAX_INNER
    for text in further[:MAX_INNER]:
        nested = read_command_line(text)
        line.is_unclear = line.is_unclear or nested.is_unclear
        for simple_command in nested.commands:
            restriction = search.find(simple_command, nested.inputs)
            if restriction is not None:
                parts.append(CommandPart(tuple(word.text for word in simple_command.words), *restriction))
    if line.is_unclear and search.level == ALL:
        parts += [
            CommandPart((command[:200],), *restriction) for restriction in search.find_shown(command, partly=True)
        ]
    return parts


def _find_closed_file(
    words: Iterable[Word], search: _Search, roots: Folders, folders: Iterable[str]
) -> PermissionRule | None:
    """Return the deny or ask rule for reading that covers one of `words` in `folders`, or may cover one that bash
    computes."""
    strict = search.reads
    if not strict:
        return None
    words = list(words)
    try:
        texts = [text for word in words if word.is_plain for text in _read_paths(word.text)]
        paths = [os.path.realpath(os.path.join(folder, text)) for folder in folders for text in texts]
    except (OSError, ValueError):  # no name of a file, as far as we know
        return strict[0]
    added = [Path(folder) for folder in roots.added]
    rule = find_by_path(strict, map(Path, paths), Path(roots.project), added) if paths else None
    if rule is not None:
        return rule
    computed = (word for word in words if not word.text.startswith("-"))
    reaching = [word for word in computed if word.has_glob or not word.is_known]
    stays = all(word.is_known and not word.text.startswith(("/", "~")) and ".." not in word.text for word in reaching)
    reached = search.open if stays else search.open_anywhere
    return reached[0] if reaching and reached else None


def _read_paths(text: str) -> list[str]:
    """Return the parts of a word that may be paths: an option's value, a file behind a colon (`HEAD:secrets/k`)."""
    if text.startswith("--"):
        text = text.partition("=")[2]
    elif text.startswith("-"):  # `-la` is no file
        text = text[2:] if {"/", ".", ":"} & set(text) else ""
    return [candidate for candidate in (text, text.partition(":")[2], text.rpartition(":")[2]) if candidate]


def _closed_redirects(line: CommandLine, search: _Search, folders: Folders) -> list[CommandPart]:
    """Return parts for the redirects that read or write what a deny or ask rule names, or that may read such a file,
    wherever the line was."""
    parts = []
    for redirect in line.redirects:
        operator, target = redirect.operator, redirect.target
        written = find_written(SimpleCommand(()), [redirect], search.writes, folders)
        if written is not None:
            why = f"the command writes a file covered by {written.label}"
            parts.append(_make_part((operator, target.text), written, why))
        closed = None
        if operator in ("<", "<>"):
            closed = _find_closed_file([target], search, folders, folders.entered)
        if closed is not None and (target.is_plain or search.level != ALL):
            why = f"it reads a file covered by {closed.label}"
            parts.append(_make_part(("<", target.text), closed, why, is_sure=target.is_plain))
    return parts


def find_allow(command: SimpleCommand, rules: RuleSet) -> PermissionRule | None:
    """Return the allow rule that names a command, also behind wrappers that change nothing."""
    words = command.words
    if command.assignments:
        return None
    for _ in range(DEEPEST):
        rule = next((rule for rule in rules.of("allow") if rule.covers(words)), None)
        if rule is not None or not words:
            return rule
        wrapper, head = find_wrapper(words)
        if wrapper is None or not wrapper.is_transparent or not system_name(words[0]):
            return None
        words, sure = skip_options(words, wrapper, head)
        if not sure:
            return None
    return None


Verdict = tuple[Decision, str, str, str]
"""A decision, the rule, its place, and one line."""


@dataclass(slots=True)
class _Collected:
    """The commands that one command runs."""

    sure: list[CommandTexts] = field(default_factory=list)
    unsure: list[CommandTexts] = field(default_factory=list)
    """Guesses: an option of a wrapper is not known."""
    passed: list[CommandTexts] = field(default_factory=list)
    """Arguments and input of programs that may run them."""
    codes: list[str] = field(default_factory=list)
    """Code in other languages."""
    is_hidden: bool = False
    """True if more is hidden."""

    def count(self) -> int:
        return len(self.sure) + len(self.unsure) + len(self.passed)


class _Search:
    """The search for what a deny or ask rule names, in a command and in all that it runs.

    What may match a rule asks. At level `all`, at which nothing asks, what may match a deny rule is refused.
    """

    def __init__(self, rules: RuleSet, level: str, line: str, *, hides: bool) -> None:
        decisions = STRICT[:1] if level == ALL else STRICT
        self.strict, edits, self.reads = (
            [rule for decision in decisions for rule in rules.of(decision, effect)]
            for effect in (Effect.RUN, Effect.EDIT, Effect.READ)
        )
        self.writes = [rule for rule in edits if rule.pattern]
        # Git reads what it has stored of a file, which no wall hides, and the walls do not look for files in `.git`.
        hides = hides and "git" not in line
        self.open = [
            permission_rule
            for permission_rule in self.reads
            if not (
                hides
                and permission_rule.decision == "deny"
                and permission_rule.pattern
                and ".git" not in permission_rule.pattern
            )
        ]
        """Those of `reads` that a glob below the folder of a command may reach."""
        self.open_anywhere = [
            permission_rule
            for permission_rule in self.reads
            if permission_rule in self.open or "/" not in permission_rule.pattern.rstrip("/")
        ]
        """Those that any word which bash computes may reach: the walls look for names in the project alone."""
        self.has_rules = any((self.strict, self.writes, self.reads))
        self.names = {rule.program for rule in self.strict if rule.argv}
        self.rules = rules
        self.level = level
        self.line = line
        self.remaining = MAX_INNER_OF_LINE

    def find(self, command: SimpleCommand, inputs: Iterable[str]) -> Verdict | None:
        """Return the strictest decision with its rule and one line, or None."""
        collected = self._collect(command, list(inputs))
        asking: Verdict | None = None
        for rule in self.strict:
            matches = {rule.match(texts) for texts in collected.sure}
            if "yes" in matches:
                return rule.decision, rule.text, rule.origin, rule.label
            if asking is None and (
                "maybe" in matches
                or any(rule.match(texts) != "no" for texts in collected.unsure)
                or any(rule.is_shown(code) for code in collected.codes)
            ):
                asking = self._add_doubtful_match(rule, f"the command may match {rule.label}")
            if asking is None and any(rule.match(texts) != "no" for texts in collected.passed):
                program = shorten(program_name(command.words[0]))
                asking = self._add_doubtful_match(rule, f"{program} may run a command that matches {rule.label}")
        if asking is None and collected.is_hidden:
            strict = self.strict[0]
            why = f"the command runs code from outside the line, which {strict.decision} {strict.text} may match"
            refusals = (
                self.find_shown(self.line) if self.level == ALL else [self._add_doubtful_match(self.strict[0], why)]
            )
            asking = next(iter(refusals), None)
        return asking

    def find_shown(self, text: str, *, partly: bool = False) -> list[Verdict]:
        """Return a refusal for the first rule whose command is written, or `partly` so, in a text that is not read."""
        matching = (rule for rule in self.strict if rule.is_shown(text, partly=partly))
        return [self._add_doubtful_match(rule, f"the command may match {rule.label}") for rule in matching][:1]

    def _add_doubtful_match(self, rule: PermissionRule, why: str) -> Verdict:
        if self.level != ALL:
            return "ask", rule.text, rule.origin, why
        advice = "write the command directly, without variables or wildcards, not as an argument for another program"
        return "deny", rule.text, rule.origin, f"{why}: {advice}"

    def _collect(self, command: SimpleCommand, inputs: list[str]) -> _Collected:
        """Return all commands that a command runs: itself, those inside it, and what programs get that may run it."""
        collected = _Collected()
        collected.codes += [self.line] if sets_program(command.assignments) else []
        queue = deque([(command, 0, inputs, collected.sure)])
        while queue:
            simple_command, depth, texts_in, group = queue.pop()
            if not simple_command.words:
                continue
            self.remaining -= depth > 0
            if depth > DEEPEST or collected.count() > MAX_INNER or self.remaining < 0:
                collected.is_hidden = True
                return collected
            is_passed = group is collected.passed
            guessed = collected.passed if is_passed else collected.unsure
            texts = texts_in if program_name(simple_command.words[0]) in SHELLS else []
            for words, is_sure in readings(simple_command.words):
                if not is_passed or words[0].is_plain:
                    (group if is_sure else guessed).append(command_texts(words))
                if not is_sure or (words is not simple_command.words and program_name(words[0]) != "git"):
                    continue
                inner = find_inner(words, simple_command.reads_pipe)
                collected.is_hidden = collected.is_hidden or (inner.is_hidden and not is_passed)
                collected.codes += [*inner.codes, *(texts_in if inner.reads_code else [])]
                collected.codes += [self.line] if inner.reads_code and simple_command.reads_pipe else []
                queue += [
                    (SimpleCommand(item, inputs=simple_command.inputs), depth + 1, texts_in, group)
                    for item in inner.commands
                ]
                queue += [(SimpleCommand(item), depth + 1, [], guessed) for item in inner.guesses]
                texts = [*texts, *inner.texts]
            for text in [*texts, *(text.replace("\\\n", "") for text in texts if "\\\n" in text)]:
                line = read_command_line(text)
                collected.is_hidden = collected.is_hidden or (line.is_unclear and not is_passed)
                queue += [(part, depth + 1, line.inputs, group) for part in line.commands]
                queue += [(SimpleCommand((Word("eval"), Word(item))), depth + 1, [], group) for item in line.codes]
            passed, passed_texts = find_passed(simple_command, self.names)
            queue.extendleft((SimpleCommand(item), depth + 1, list[str](), collected.passed) for item in passed)
            for text in passed_texts:
                line = read_command_line(text)
                collected.codes += [text] if line.is_unclear else []
                queue.extendleft((part, depth + 1, line.inputs, collected.passed) for part in line.commands)
        return collected


def _check_redirects(line: CommandLine, folders: Folders) -> list[str]:
    """Return the redirects that write, or read outside the project, in words."""
    phrases = []
    for operator, target, place in (redirect for redirect in line.redirects if redirect.opens_file):
        if operator in (">", ">>", "&>", ">&") and target.is_plain and target.text == "/dev/null":
            continue
        if operator == "<":
            try:
                check_input(target, place, folders)
                continue
            except (NotReadOnly, OSError, ValueError):
                pass
        phrases.append(f"a redirect to {target.text[:60]!r}" if ">" in operator else f"input from {target.text[:60]!r}")
    return list(dict.fromkeys(phrases))


def _find_reasons(
    command: str, line: CommandLine, doubts: list[str], parts: list[CommandPart], level: str, rules: RuleSet
) -> list[str]:
    """Return the reasons that the line asks under `level`."""
    hidden = find_hidden_sign(command)
    reasons = [f"the command contains a hidden character ({hidden})"] if hidden else []
    reasons += [f"the rule in {source} cannot be read" for source in rules.broken[:1]]
    if line.is_unclear and (rules.of("deny") or rules.of("ask")):
        unparsed = ", ".join([*line.doubts, *line.forms])
        reasons.append(f"deny or ask rules exist, and the command cannot be fully parsed: {unparsed}")
    elif level != AUTO:
        reasons += [f"the command contains {doubt}" for doubt in doubts]
    return reasons + [part.why for part in parts if part.decision == "ask"]


def _find_requested_rights(confined: bool, network: bool, outside: str) -> list[str]:
    """Return the reasons that the call asks for any command."""
    if outside:
        return [OUTSIDE]
    if not confined:
        return [NO_SANDBOX]
    return [NETWORK] if network else []


def _prefixes(commands: list[SimpleCommand], parts: list[CommandPart]) -> tuple[str, ...]:
    """Return the allow rules that would cover all parts that ask, or () if one of them must not be offered. Of a
    command that asks because of a path outside the project the rule covers these words alone."""
    stored: dict[str, None] = {}
    if any(part.decision != "allow" for part in parts[len(commands) :]):
        return ()
    for command, part in zip(commands, parts, strict=False):
        if part.decision == "allow":
            continue
        if part.rule is None and part.why.endswith("outside the project"):
            if not all(word.is_plain for word in command.words):
                return ()
            stored[f"bash({shlex.join(word.text for word in command.words)})"] = None
            continue
        prefix = find_prefix(command) if part.rule is None else ()
        if not prefix or not keeps_form(prefix, command.words):
            return ()
        stored[f"bash({shlex.join(prefix)} *)"] = None
    return tuple(stored)


def _explain_allow(level: str, profile: Profile, ruled: CommandPart | None) -> str:
    """Return the reason that a line is allowed; `ruled` is the first part that a rule allows."""
    if level == ALL:
        return "level all: nothing needs approval"
    if profile == "read":
        return "every part only reads"
    if ruled is not None:
        return f"allow {ruled.rule} ({ruled.source})"
    return "level auto: in the sandbox, without network"
