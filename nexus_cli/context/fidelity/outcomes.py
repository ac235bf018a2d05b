"""Commands and how they ended: from tool results, and from what a person pasted out of a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from nexus_cli.context.fidelity import changes
from nexus_cli.context.fidelity.errors import is_error
from nexus_cli.core.message import ToolCall

SHELLS = frozenset({"bash", "shell", "sh", "run", "run_command", "execute", "execute_command", "exec", "terminal"})
COMMAND_ARGUMENTS = ("command", "cmd", "script")
READERS = frozenset({"read_file", "grep", "glob", "recall", "context", "search_memory", "view", "read", "search",
"list"})
"""Tools whose results are other people's text: an error in it happened elsewhere."""

_EXIT = re.compile(r"\bexit(?:ed)?(?: with)?(?: status| code)?[ :=]{1,2}(?P<status>-?\d{1,3})\b", re.IGNORECASE)
LONGEST = 1000
"""Characters of a line of a terminal that are read."""
_MOST = 400
"""Lines behind a command that are looked through for one that names a failure."""
_TAIL = 300
"""Characters at the end of a result in which its exit status stands."""
_PROMPT = re.compile(
    r"(?:\w{1,40}[=-][#>*]|mysql>|sqlite>|MariaDB \[\S{1,40}\]>) (?P<query>[\w\\].{0,400})$|\s{0,8}(?:\([\w.-]{1,30}\) )?(?:(?:[\w.-]{1,40}@[\w.-]{1,60}[: ]?)?(?:[~/][^\s$#%>]{0,120}|~)?\s?[$#%❯➜»]|PS "
    r"[A-Z]:[^>\n]{0,120}>|[A-Z]:\\[^>\n]{0,120}>)"
    r"\s{1,3}(?P<command>\S.{0,400})$"
)
_ALONE = re.compile(
    r"(?:sudo |time |[A-Z_]{2,20}=\S{1,40} ){0,2}(?:\.{1,2}/[\w./-]{1,80}|(?:sh|bash|zsh|python[\d.]*|pip[\d.]*|pipx|uv|uvx|poetry|"
    r"pytest|tox|nox|mypy|ruff|flake8|jupyter|conda|npm|npx|pnpm|yarn|node|deno|bun|tsc|cargo|rustc|go|make|cmake|ninja|"
    r"meson|gcc|g\+\+|clang|cc|mvn|\./mvnw|gradle|java|javac|ant|kotlinc|swift|xcodebuild|pod|dotnet|msbuild|php|composer|"
    r"artisan|ruby|bundle|gem|rake|rails|rspec|mix|iex|elixir|ghc|cabal|stack|psql|mysql|sqlite3|pg_dump|pg_restore|git|gh|"
    r"docker|docker-compose|podman|kubectl|helm|terraform|tofu|ansible|ansible-playbook|aws|gcloud|az|ssh|scp|rsync|curl|"
    r"wget|tar|ln|cp|mv|rm|mkdir|chmod|chown|systemctl|journalctl|apt|apt-get|yum|dnf|brew|nix|twine|gpg|avrdude|esptool\S*|"
    r"esphome|platformio|pio|openocd|julia|Rscript|perl|lua|sed|awk|grep|find|bats|shellcheck))"
    r"(?: [^\s?!,]{1,200}){0,20}$"
)
"""A line that is a command without a prompt before it, where what follows is output."""
_BARE_HASH = re.compile(r"\s{0,8}#\s{1,3}")
_STATUS_ASKED = re.compile(r"echo \$\?|echo %errorlevel%|echo \$LASTEXITCODE", re.IGNORECASE)
_ASKED_TOO = re.compile(r" ?(?:;|&&) ?echo \$\?$")

TOOL_ERRORS = re.compile(
    r"unknown tool\b|there is no tool\b|bad arguments\b|arguments are no JSON\b|\w{1,60} failed: |refused\b|denied\b|"
    r"not run: |interrupted while it ran"
    r"|outcome unknown|the command could not be started|the working folder\b.{0,300}\bis gone|not allowed\b|the "
    r"person (?:said no|refused)",
    re.IGNORECASE,
)
"""How the result of a call that could not run begins."""


_FAILED = re.compile(
    r"(?:error|failed|failure|cannot|can't|could not|couldn't|unable to|no such|not found|no match|(?:file|path|directory) "
    r"(?:not found|does not exist|doesn't exist)|permission denied|access denied|e[a-z]{4,8}: |"
    r"invalid)\b[^.]{0,40}[ :]",
    re.IGNORECASE,
)
"""How the one line begins with which a tool that is no shell says so in other words."""
_REFUSES = re.compile(
    r"\b(?:errors?|fail(?:ed|ure|s)?|cannot|can't|could not|couldn't|unable|no such|not found|no match(?:es)?|invalid|denied|"
    r"refused|does not (?:exist|occur|match)|doesn't (?:exist|occur|match)|did not match|didn't match|not unique|multiple "
    r"(?:matches|occurrences)|(?:occurs|appears|matches|found) \d+ times|nothing (?:was )?(?:changed|replaced|written)|no changes?"
    r"|0 (?:replacements|occurrences|edits)|not allowed|not permitted|outside|already exists|is a directory|unchanged)\b",
    re.IGNORECASE,
)
"""What the first line says with which a tool that edits tells that it did not."""
_DID = re.compile(
    r"\W{0,3}(?:(?:successfully|the|file|ok[:,]?|done[.:,]?|has been|[^\s:]{0,100}[/.][^\s:]{1,100}:?) ){0,5}(?:created|wrote|"
    r"written|replaced|changed|edited|updated|deleted|removed|saved|modified|overwr\w+|applied|patched|renamed|moved|inserted|"
    r"appended|@@|[1-9]\d* (?:edits?|replacements?|occurrences?|changes?|lines?|hunks?|bytes))\b",
    re.IGNORECASE,
)
"""How it begins where it did."""
_DONE = re.compile(
    r"(?:ok|done|created|wrote|written|replaced|changed|edited|updated|deleted|removed|saved|modified|overwr\w+|"
    r"applied|"
    r"\d+ (?:edits?|replacements?|occurrences?|changes?|lines?|hunks?|bytes))\b",
    re.IGNORECASE,
)
"""What follows the path where all went well."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A command, and its exit status where it is known."""

    command: str
    exit: int | None


def command_of(call: ToolCall) -> str:
    """The command line of a call of a shell; "" for other tools."""
    if call.name not in SHELLS:
        return ""
    return next((value for name in COMMAND_ARGUMENTS if isinstance(value := call.arguments.get(name), str)), "")


def exit_of(content: str) -> int | None:
    """The exit status that the end of a result tells, or None."""
    told = list(_EXIT.finditer(content[-_TAIL:]))
    return int(told[-1]["status"]) if told else None


def tool_error(call: ToolCall, content: str) -> str:
    """The line with which a tool says that it could not do its work; "" where it could."""
    first, _, rest = content.partition("\n")
    if len(first) > 1000 or not first:
        return ""
    subject = next((v for k in ("path", "file_path", "pattern") if isinstance(v := call.arguments.get(k), str)), "")
    named = subject and first.startswith(f"{subject}: ") and (not rest.strip() or rest.startswith(
        "Nothing was changed") or len(rest) < 500)
    if named and _DONE.match(first, len(subject) + 2):
        return ""
    if named or TOOL_ERRORS.match(first):
        return first
    if changes.usual(call.name) and _REFUSES.search(first) and not _DID.match(first):
        return first
    return first if not command_of(call) and not rest.strip() and _FAILED.match(first) else ""


def pasted(text: str) -> tuple[list[Ran], list[str]]:
    """The commands of the terminal sessions that are pasted in a text, each with its status where that is shown; and
    the lines of output behind those that have no common prompt."""
    session = _Session()
    paragraph: list[str] = []
    for line in (*text.splitlines(), ""):
        session.read(line[:LONGEST])
        if line.strip():
            paragraph.append(line[:LONGEST])
        elif paragraph:
            session.alone(paragraph)
            paragraph = []
    session.end()
    return session.found, session.output


@dataclass(slots=True)
class _Session:
    found: list[Ran] = field(default_factory=list)
    output: list[str] = field(default_factory=list)
    _last: str = ""
    _told: int | None = None
    _asked: bool = False
    _odd: bool = False
    """The prompt is one that prose may begin with too."""

    def read(self, line: str) -> None:
        """Take the next line: a prompt with a command, or what it printed."""
        if self._asked and line.strip().lstrip("-").isdigit():
            self._told, self._asked = int(line), False
            return
        hash_mark = _BARE_HASH.match(line)
        prompt = _PROMPT.match(line)
        command = (prompt["query"] or prompt["command"]).strip() if prompt else ""
        if hash_mark and not (_ALONE.match(_ASKED_TOO.sub("", command)) or _STATUS_ASKED.match(command)):
            command = ""
        if _STATUS_ASKED.match(command):
            self._asked = True
        elif command and not command[0].isdigit():
            self.end()
            self._last = _ASKED_TOO.sub("", command)
            self._asked = self._last != command
            self._odd = bool(hash_mark or (prompt and prompt["query"]))
        elif self._last and (status := _EXIT.search(line)):
            self._told = int(status["status"])
        elif self._odd and line.strip():
            self.output.append(line)
        self._odd = self._odd and bool(line.strip())

    def end(self) -> None:
        """The command that was read last has printed all that it did."""
        if self._last:
            self.found.append(Ran(self._last, self._told))
        self._last, self._told = "", None

    def alone(self, paragraph: list[str]) -> None:
        """Take a paragraph whose first line may be a command without a prompt, before lines that name a failure."""
        first, *rest = [line for line in paragraph if not line.lstrip().startswith("```")] or [""]
        if not _ALONE.match(first) or any(ran.command == first for ran in self.found) or self._last:
            return
        if any(is_error(line) for line in rest[:_MOST]):
            status = next((hit for line in rest if (hit := _EXIT.search(line))), None)
            self.found.append(Ran(first, int(status["status"]) if status else None))
            self.output += rest


_RAN = re.compile(r"\b(?:ran|run|running|executed|typed|called|calling) `(?P<command>[^`\n]{2,200})`", re.IGNORECASE)


def told(sentence: str) -> Iterator[Ran]:
    """The commands that a sentence says were run, where it tells their status."""
    status = _EXIT.search(sentence)
    if status:
        for hit in _RAN.finditer(sentence):
            yield Ran(hit["command"], int(status["status"]))
