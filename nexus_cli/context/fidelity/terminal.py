"""A terminal session that somebody pasted: its commands, how they ended, and the output behind odd prompts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from nexus_cli.context.fidelity.errors import is_error
from nexus_cli.context.fidelity.outcomes import EXIT, Ran

LONGEST = 1000
"""Characters of a line of a terminal that are read."""
_MOST = 400
"""Lines behind a command that are looked through for one that names a failure."""
_PROMPT = re.compile(
    r"(?:\w{1,40}[=-][#>*]|mysql>|sqlite>|MariaDB \[\S{1,40}\]>) (?P<query>[\w\\].{0,400})$|"
    r"\s{0,8}(?:\([\w.-]{1,30}\) )?(?:(?:[\w.-]{1,40}@[\w.-]{1,60}[: ]?)?(?:[~/][^\s$#%>]{0,120}|~)?\s?[$#%❯➜»]|"
    r"PS [A-Z]:[^>\n]{0,120}>|[A-Z]:\\[^>\n]{0,120}>)\s{1,3}(?P<command>\S.{0,400})$"
)
_ALONE = re.compile(
    r"(?:sudo |time |[A-Z_]{2,20}=\S{1,40} ){0,2}(?:\.{1,2}/[\w./-]{1,80}|(?:sh|bash|zsh|python[\d.]*|pip[\d.]*|pipx|"
    r"uv|uvx|poetry|pytest|tox|nox|mypy|ruff|flake8|jupyter|conda|npm|npx|pnpm|yarn|node|deno|bun|tsc|cargo|rustc|go|"
    r"make|cmake|ninja|meson|gcc|g\+\+|clang|cc|mvn|\./mvnw|gradle|java|javac|ant|kotlinc|swift|xcodebuild|pod|dotnet|"
    r"msbuild|php|composer|artisan|ruby|bundle|gem|rake|rails|rspec|mix|iex|elixir|ghc|cabal|stack|psql|mysql|sqlite3|"
    r"pg_dump|pg_restore|git|gh|docker|docker-compose|podman|kubectl|helm|terraform|tofu|ansible|ansible-playbook|aws|"
    r"gcloud|az|ssh|scp|rsync|curl|wget|tar|ln|cp|mv|rm|mkdir|chmod|chown|systemctl|journalctl|apt|apt-get|yum|dnf|"
    r"brew|nix|twine|gpg|avrdude|esptool\S*|esphome|platformio|pio|openocd|julia|Rscript|perl|lua|sed|awk|grep|find|"
    r"bats|shellcheck))(?: [^\s?!,]{1,200}){0,20}$"
)
"""A line that is a command without a prompt before it, where what follows is output."""
_BARE_HASH = re.compile(r"\s{0,8}#\s{1,3}")
_STATUS_ASKED = re.compile(r"echo \$\?|echo %errorlevel%|echo \$LASTEXITCODE", re.IGNORECASE)
_ASKED_TOO = re.compile(r" ?(?:;|&&) ?echo \$\?$")


def pasted(text: str) -> tuple[list[Ran], list[str]]:
    """The commands of the terminal sessions that are pasted in a text, each with its status where that is shown; and
    the lines of output behind those that have no common prompt."""
    session = _Session()
    paragraph: list[str] = []
    for line in (*text.splitlines(), ""):
        if line and not line.isspace():
            session.read(line[:LONGEST])
            paragraph.append(line[:LONGEST])
        elif paragraph:
            session.alone(paragraph)
            paragraph = []
            session.pause()
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
        elif self._last and (status := EXIT.search(line)):
            self._told = int(status["status"])
        elif self._odd:
            self.output.append(line)

    def pause(self) -> None:
        """A blank line ends the output of a prompt that prose may begin with too."""
        self._odd = False

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
            status = next((hit for line in rest if (hit := EXIT.search(line))), None)
            self.found.append(Ran(first, int(status["status"]) if status else None))
            self.output += rest
