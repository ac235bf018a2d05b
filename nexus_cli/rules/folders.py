"""The folders that a command line may be in, and where its paths lead."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from nexus_cli.config.paths import is_below, places
from nexus_cli.config.protected_places import HOLDS_SECRETS, SecretPlaces
from nexus_cli.core.real_files import join_path, real_path
from nexus_cli.rules.command_line import CommandLine, SimpleCommand, Word, shorten

MAX_FOLDERS = 8
"""Folders that a line may be in at once, by what its `cd` did."""
MAX_LISTED = 5_000
"""Names that are read to see where the globs of a line lead."""
_GLOB = re.compile(r"[*?\[]")


class NotReadOnly(Exception):
    """A command may do more than read; the text says why."""


@dataclass(slots=True)
class Folders:
    """The folders that a line may be in, and the project."""

    project: str
    start: str
    assumed: str
    """The folder if every `cd` succeeds."""
    alternatives: list[str]
    """The folders if one does not."""
    added: tuple[str, ...] = ()
    """Folders that count like the project."""
    secrets: SecretPlaces | None = None
    """Looked up at the first path in the project."""
    anywhere: bool = False
    """Only the forms of commands count, wherever they read."""
    is_lost: bool = False
    """A command before has changed the shell: nothing counts as read-only any more."""
    listed: int = 0
    """Names that were read for globs."""
    line: CommandLine = field(default_factory=CommandLine)
    forms: int = 0
    """Values of variables that were looked at."""
    entered: list[str] = field(default_factory=list)
    """Every folder that the line may have been in."""

    @classmethod
    def of(cls, cwd: Path, project: Path, line: CommandLine, added: Iterable[Path] = ()) -> Folders:
        start, root = os.path.realpath(cwd), os.path.realpath(project)
        return cls(root, start, start, [], tuple(map(str, added)), line=line, entered=[start])

    def holds(self, path: str) -> bool:
        """Return True if the real `path` lies in the project or an added folder and is no place of credentials."""
        if self.anywhere:
            return True
        for root in (self.project, *self.added):
            if is_below(path, root):
                break
        else:
            return False
        self.secrets = self.secrets or SecretPlaces(places(), Path(self.project))
        return self.secrets.find(Path(path), inside=Path(root)) is None

    def enter(self, command: SimpleCommand) -> None:
        """Follow one `cd`; raise `NotReadOnly` if it leads outside the project or its target is unknown."""
        words = command.words[1:]
        if words and words[0].text == "--":
            words = words[1:]
        if len(words) != 1 or not words[0].is_plain or words[0].text.startswith("-") or not words[0].text:
            raise NotReadOnly("nexus can only follow cd with exactly one literal path")
        if command.is_nested:
            raise NotReadOnly("nexus cannot follow cd in a loop or condition")
        entered = [join_path(folder, words[0].text) for folder in (self.assumed, *self.alternatives)]
        for folder in entered:
            if os.path.realpath(folder) != folder and os.path.lexists(folder):
                raise NotReadOnly("the path of cd contains a symbolic link")
        if not self.holds(entered[0]):
            raise NotReadOnly("cd leaves the project")
        sure = (
            command.is_certain
            and not self.alternatives
            and os.access(entered[0], os.X_OK)
            and os.path.isdir(entered[0])
        )
        alternatives = [] if sure else [self.assumed, *self.alternatives, *entered[1:]]
        self.assumed, self.alternatives = (
            entered[0],
            list(dict.fromkeys(other_folder for other_folder in alternatives if other_folder != entered[0])),
        )
        self.entered += entered
        if len(self.alternatives) > MAX_FOLDERS:
            raise NotReadOnly("the line has too many cd commands to track")


def check_path(word: Word, folders: Folders) -> None:
    """Raise `NotReadOnly` if `word` may name something outside the project."""
    text = word.text
    if text in ("-", "/dev/null") or not text or folders.anywhere:
        return
    if word.has_tilde:
        if text != "~" and not text.startswith("~/"):
            raise NotReadOnly(f"the value of {shorten(text)} is not known before the command runs")
        text = os.path.expanduser(text)
    for folder in (folders.assumed, *folders.alternatives):
        path = os.path.join(folder, text)
        if word.has_glob:
            check_glob(path, folders)
        elif not folders.holds(os.path.realpath(path)) and (folder == folders.assumed or os.path.lexists(path)):
            secret = SecretPlaces(places(), Path(folders.project)).find(real_path(path))
            raise NotReadOnly(f"{shorten(text)} {HOLDS_SECRETS if secret else 'is outside the project'}")


def check_glob(path: str, folders: Folders) -> None:
    """Raise `NotReadOnly` if the glob `path` is outside the project: by `..`, its head, or a link that it finds."""
    parts = path.split("/")
    first = next(place for place, part in enumerate(parts) if _GLOB.search(part))
    # A bash before 5.2 finds `..` by `.*`.
    up = any(part.startswith(".") and fnmatch.fnmatchcase("..", part.replace("[", "*")) for part in parts[first:])
    if up or ".." in parts[first:] or not folders.holds(os.path.realpath("/".join(parts[:first]) or "/")):
        raise NotReadOnly(f"{shorten(path)} may be outside the project")
    expanded = ["/".join(parts[:first]) or "/"]
    for part in parts[first:]:
        deeper: list[str] = []
        for folder in expanded:
            if not _GLOB.search(part):
                deeper.append(os.path.join(folder, part))
                continue
            if not os.path.isdir(folder):
                continue
            pattern = re.compile(fnmatch.translate("*" if "[" in part or "\\" in part else part))
            with os.scandir(folder) as entries:
                for entry in entries:
                    folders.listed += 1
                    if folders.listed > MAX_LISTED:
                        raise NotReadOnly(f"{shorten(part)} matches too many files")
                    if pattern.match(entry.name):
                        deeper.append(entry.path)
        for deeper_path in deeper:
            if not folders.holds(os.path.realpath(deeper_path)):
                raise NotReadOnly(f"{shorten(deeper_path)} is outside the project")
        expanded = deeper
