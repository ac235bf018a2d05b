"""Show what changed in files: in a turn, or in the working folder: git's diff against the last commit, then untracked
files as new ones, bounded in time and size.

Without git, or outside of a repository, lists the files that the session changed. As far as git allows, runs no program
that a repository's own configuration names; git runs inside walls.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NotRequired

from nexus_cli.commands.undo import Paths, Turn, open_undo
from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.config.paths import project_root
from nexus_cli.config.project_environment import split_environments
from nexus_cli.core.json_value import JsonObject, VersionedReport
from nexus_cli.core.real_files import real_path
from nexus_cli.ledger import Ledger
from nexus_cli.reports.text.blocks import Blocks, Verbatim
from nexus_cli.reports.text.lines import plural
from nexus_cli.sandbox.own_git import Git, GitError, find_git
from nexus_cli.tools import process
from nexus_cli.tools.cancellable_thread import StopFlag, run_in_thread
from nexus_cli.tools.edit_preview import unified_diff
from nexus_cli.tools.files import ToolError, decode_file, read_real_file

SECONDS = 10.0
MOST = 512 * 1024
"""Most bytes of a diff."""
NAMES = 500
"""Most untracked files that are named."""
MAX_NAMES = 50
"""Most files that are listed."""
LARGE = 64 * 1024
"""Size in bytes above which an untracked file is only named."""
DIFF = (
    "diff",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--ignore-submodules=dirty",
)


class DiffReport(VersionedReport):
    """Changes to files."""

    turn: NotRequired[int | None]
    """null if no turn of the session changed a file."""
    source: Literal["git"]
    text: str
    """The diff."""
    cut: str
    """What is left out at the end, such as "1,234 more bytes"; "" if the diff is complete."""
    unread: list[str]
    """Files that are large, not text or unreadable, or whose earlier content was not kept."""
    untracked: list[str]
    untracked_count: int


class SessionChanges(VersionedReport):
    """Changes to files that git cannot show."""

    source: Literal["session"]
    why: str
    """Why git is not used."""
    files: list[str]
    """The files that the session changed."""


def show_changes(source: Source, path: Paths = None, turn: Turn = None) -> Report[DiffReport | SessionChanges]:
    """Show changes to files as a diff.

    By default the diff shows the newest turn with changes; N selects a turn, and PATH limits the diff to some files. In
    a session, without N and PATH, it shows all changes in the working folder, including untracked files; without git,
    it lists the files that the session changed. In a shell, `git diff HEAD` shows the changes since the last commit.
    """
    if source.live and not path and turn is None:
        return Report("diff", folder_diff(source.folder(), source.ledger, source.session()))
    from nexus_cli.reports.turn_diff import turn_diff  # noqa: PLC0415
    from nexus_cli.undo.undo_turn import is_undone  # noqa: PLC0415

    request = open_undo(source, path, turn)[1]
    turn_number, text, unread = turn_diff(request)
    value: DiffReport = {"version": 1, "turn": turn_number, **diff_report(text, unread=unread)}
    if not text and not unread:
        none = f"no changes to files are recorded for {f'turn {turn}' if turn else 'this session'}"
        return Report("", value, note=f"{none}{' at this path' if path else ''}.")
    undone = turn_number is not None and is_undone(request, turn_number)
    return Report("diff", value, note=f"turn {turn_number} was undone." if undone else "")


def folder_diff(folder: Path, ledger: Ledger, session: str) -> DiffReport | SessionChanges:
    """Return the changes since the last commit, or without git those of the session. Blocks."""
    try:
        return _read_git_diff(folder, StopFlag(), "", MOST)
    except GitError as reason:
        files = ledger.log(session).files()
        changed = [_shorten_path(path, folder) for path, how in files if how != "read"]
        return {"version": 1, "source": "session", "why": str(reason), "files": changed}


def diff_text(value: JsonObject) -> Blocks:
    """Show a diff (None if it is shown already), then the files without diff lines; without git, the files that the
    session changed."""
    if value["source"] != "git":
        why = value["why"]
        yield f"{why[:1].upper()}{why[1:]}. Files changed by this session:"
        yield from _list_names(value["files"] or ["none"])
        return
    unread = value["unread"]
    if text := value["text"]:
        yield Verbatim(text.rstrip("\n"))
    elif text is not None and not unread:
        yield "No uncommitted changes."
    if value.get("cut"):
        yield f"[diff truncated: {value['cut']}]"
    if unread:
        yield from ["", "Not shown (too large, binary, unreadable, or no copy kept):", *_list_names(unread)]
    if more := value["untracked_count"] - len(value["untracked"]):
        yield f"[and {plural(more, 'untracked file')} not listed]"


def _list_names(names: list[str]) -> Blocks:
    yield from (Verbatim(name.replace("\n", "\\n"), "  ") for name in names[:MAX_NAMES])
    if len(names) > MAX_NAMES:
        yield f"[{plural(len(names) - MAX_NAMES, 'more file')}]"


def diff_report(text: str, cut: str = "", unread: Sequence[str] = (), untracked: Sequence[str] = ()) -> DiffReport:
    """Return the report of a diff."""
    return {
        "version": 1,
        "source": "git",
        "text": text,
        "cut": cut,
        "unread": [*unread],
        "untracked": [*untracked[:NAMES]],
        "untracked_count": len(untracked),
    }


def _read_git_diff(folder: Path, stop: StopFlag, inside: str, room: int) -> DiffReport:
    """Return the changes of a repository, `room` bytes at most, and of its submodules; `inside` precedes each path.

    Git runs in each submodule by itself: from the repository above, it would start filters that the submodule names.
    """
    git = _find_git(folder)
    if _git(git, stop, "rev-parse", "--is-inside-work-tree")[0].strip() != b"true":
        raise GitError("this folder is not in a git repository")
    head, status = _git(git, stop, "rev-parse", "--verify", "--quiet", "HEAD")
    if status:
        head, _ = _git(git, stop, "hash-object", "-t", "tree", "/dev/null")
    quiet = git.without_filters()
    prefixes = (f"--src-prefix=a/{inside}", f"--dst-prefix=b/{inside}")
    text, status = _git(git, stop, *quiet, *DIFF, *prefixes, head.decode("ascii", "replace").strip(), "--", ".")
    if status:
        raise GitError("git could not compare the files")
    listed, _ = _git(git, stop, "ls-files", "--others", "--exclude-standard", "-z", "--", ".")
    files, environments = split_environments(os.fsdecode(name) for name in listed.split(b"\0") if name)
    names = files + environments
    fitting = text[: text.rfind(b"\n", 0, room) + 1] if len(text) > room else text
    cut = f"{len(text) - len(fitting):,} more bytes" if len(fitting) < len(text) else ""
    added, unread = _diff_new_files(folder, inside, names[:NAMES], 0 if cut else room - len(fitting))
    diff, names = fitting.decode("utf-8", "replace") + added, [inside + name for name in names]
    for name in _list_submodules(git, folder, stop):
        with suppress(GitError):
            part = _read_git_diff(folder / name, stop, f"{inside}{name}/", max(0, room - len(diff)))
            diff, cut = diff + part["text"], cut or part["cut"]
            unread, names = unread + part["unread"], names + part["untracked"]
    return diff_report(diff, cut, unread, names)


def _list_submodules(git: Git, folder: Path, stop: StopFlag) -> list[str]:
    """Return the paths of the submodules below a folder that have a repository, relative to it. A link at such a path,
    which a command may make, leads elsewhere and is left out."""
    if not (project_root(folder) / ".gitmodules").is_file():
        return []
    listed, _ = _git(git, stop, "ls-files", "--stage", "-z", "--", ".")
    names = [os.fsdecode(entry.partition(b"\t")[2]) for entry in listed.split(b"\0") if entry.startswith(b"160000 ")]
    real_folder = real_path(folder)
    return [
        name
        for name in names
        if os.path.lexists(real_folder / name / ".git") and real_path(real_folder / name) == real_folder / name
    ]


@dataclass(frozen=True, slots=True)
class ChangeText:
    """A change in the form that a reviewer gets."""

    command: str
    text: str = ""
    problem: str = ""
    """Reason that there is nothing to review."""


async def changes_to_review(folder: Path, revision: str) -> ChangeText:
    """Return the diff of `revision`, or the uncommitted one with new files; files that are not text are only named."""
    if revision.startswith("-"):
        return ChangeText("", problem="a range cannot begin with a dash")
    command = f"git diff {revision or 'HEAD'}"
    try:
        if not revision:
            value = await run_in_thread(lambda stop: _read_git_diff(folder, stop, "", MOST))
            names = value["unread"]
            untracked = f"\nUntracked files, not in the diff:\n{chr(10).join(names)}\n" if names else ""
            text = value["text"] + untracked
        else:
            text = await run_in_thread(lambda stop: _range_diff(folder, revision, stop))
    except GitError as reason:
        return ChangeText(command, problem=str(reason))
    return ChangeText(command, text, "" if text.strip() else "nothing has changed")


def _range_diff(folder: Path, revision: str, stop: StopFlag) -> str:
    git = _find_git(folder)
    prefixes = ("--src-prefix=a/", "--dst-prefix=b/")
    text, status = _git(git, stop, *git.without_filters(), *DIFF, *prefixes, revision, "--")
    if status:
        raise GitError(f"unknown git revision `{revision}`")
    return text[:MOST].decode("utf-8", "replace")


def _diff_new_files(folder: Path, inside: str, names: list[str], room: int) -> tuple[str, list[str]]:
    """Return the diffs of those new files among `names` that fit into `room` characters, and the names of the
    others; `inside` precedes each path."""
    text, unread = "", []
    for name in names:
        diff = _diff_new_file(folder / name, inside + name) if len(text) < room else ""
        if diff and len(text) + len(diff) <= room:
            text += diff
        else:
            unread.append(inside + name)
    return text, unread


def _diff_new_file(path: Path, name: str) -> str:
    """Return the diff that adds a text file; "" for any other file, and for a large one."""
    try:
        content = read_real_file(path, LARGE)
    except (OSError, ToolError):
        return ""
    if content.beyond:
        return ""
    read = decode_file(content.data)
    return unified_diff(None, read.text, name) if read is not None else ""


def _find_git(folder: Path) -> Git:
    if not folder.is_dir():
        raise GitError(f"the folder {folder} no longer exists")
    git = find_git(folder)
    if git is None:
        raise GitError("git was not found")
    return git


def _git(git: Git, stop: StopFlag, *arguments: str) -> tuple[bytes, int]:
    """Return git's output and exit status; raise `GitError` if it cannot be started or takes too long."""
    try:
        result = process.run_git(git, *arguments, stop=stop, seconds=SECONDS)
    except (OSError, ValueError) as error:
        raise GitError(f"git could not be started ({error})") from None
    if result.timed_out:
        raise GitError(f"git took longer than {SECONDS:.0f} s")
    return result.output, result.status


def _shorten_path(path: str, folder: Path) -> str:
    """Return `path` relative to `folder` if it is inside, else unchanged."""
    return os.path.relpath(path, folder) if Path(path).is_relative_to(folder) else path


NOUN = Noun("diff", "run", (Verb(show_changes, of_session=True),), aliases=("change",), is_first=True)
