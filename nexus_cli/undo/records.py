"""Records of what one step changed in files, and their JSON form: a line of the journal.

Paths are relative to `Step.root`. Names that are not UTF-8 are kept by `surrogateescape`, and survive JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from nexus_cli.core.json_value import JsonDict, JsonObject
from nexus_cli.core.read_event import read_value
from nexus_cli.tree.file_state import ABSENT, FOLDER, FileState

HEAD = "HEAD"
REPOSITORY, GIT_FOLDER = "repository", ".git"
"""Kind and path of a repository that a step removed. It is kept as a whole, see `repository_copy`."""
MODE = "+"
"""What is between the content of a file in git's folder and its permission bits, in a value of a reference."""
MAX_LEVELS = 100
"""Most folders inside each other that are followed: each takes a descriptor, and a step to all that is below it."""
TOO_DEEP = f"more than {MAX_LEVELS} nested folders"


@dataclass(frozen=True, slots=True)
class FileChange:
    """The states of one path before and after a step."""

    path: str
    """Relative to `Step.root`."""
    before: FileState
    after: FileState
    stamp: tuple[int, int, int] = (0, 0, 0)
    """Size, mtime (ns) and inode of the path after the step: with the same stamp it is unchanged since. Zeros if it
    does not exist then, or if it changed while it was read."""
    is_moved_in: bool = False
    """True if the file or link existed before the step, at a place that is not followed."""
    is_earlier: bool = False
    """True if the path changed before what other steps recorded while this one ran; they stand before it."""
    is_unsure: bool = False
    """True if the person may have made the change, see `unsure_changes`."""
    was_missing: bool = False
    """True if the step was to remove the path, and did not find it."""
    root: str = field(default="", compare=False)
    """That of the step; "" before the change is in one."""
    is_broken: bool = field(default=False, compare=False)
    """True if several steps changed the path, and something else between two of them."""

    @property
    def place(self) -> str:
        """Absolute path."""
        return f"{self.root}/{self.path}"

    @property
    def is_whole_folder(self) -> bool:
        """True if a folder was made or removed, and no file was there."""
        return {self.before.kind, self.after.kind} == {FOLDER, ABSENT}

    @property
    def is_lost_repository(self) -> bool:
        """True if it is the `.git` of a repository that was removed or broken."""
        return self.before.kind == REPOSITORY


@dataclass(frozen=True, slots=True)
class ReferenceChange:
    """The values of a reference, or of a file in git's folder, before and after a step."""

    repository: str
    """Path of the repository, relative to `Step.root`; "" for the root."""
    name: str
    """`HEAD`, `refs/heads/main`, `index`, `MERGE_HEAD`, `logs/refs/stash`."""
    before: str
    """A commit, `ref: NAME`, the content of a file in the byte store with its mode (`sha256:HEX+644`); "" if absent."""
    after: str
    is_unsure: bool = field(default=False, compare=False)
    """True if the person may have made the change, as in `FileChange`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The changes of one call, command or undo."""

    id: str
    """Unique in all journals."""
    session: str
    """The session whose undo takes the step back: for a worker's step that of the turn which started the worker."""
    turn: int
    """Number of the person's message in that session, from 1."""
    call: str
    """Id of the tool call, "" if there is none."""
    what: str
    """For people: `bash rm -rf src`, `edit_file a.py`, `!make`, `apply w1`."""
    at: str
    """When it ended, ISO 8601 in UTC."""
    root: str
    """Real path of the project, of an added folder, or of the folder of a file outside of them."""
    changes: tuple[FileChange, ...] = ()
    references: tuple[ReferenceChange, ...] = ()
    """What it did to the references of repositories. Where it moved HEAD, also the branches that HEAD named."""
    undoes: tuple[str, ...] = ()
    """Ids of the steps that this step, an undo, took back."""
    unfollowed: str = ""
    """Why some or all changes are unknown, "" if they are known."""
    not_covered: tuple[tuple[str, str], ...] = ()
    """Paths that an undo may not bring back, each with the reason: `.` for all of the project."""
    began: str = ""
    """When it began, as `at`; "" for steps without a look."""
    is_unsure: bool = False
    """True if jobs ran beside the calls: each of the changes is unsure then."""

    def __post_init__(self) -> None:
        if any(change.root != self.root for change in self.changes):
            placed = tuple(replace(change, root=self.root) for change in self.changes)
            object.__setattr__(self, "changes", placed)


def fields_of(value: Step | FileChange | FileState | ReferenceChange) -> JsonDict:
    """Return the fields of a record, for `json.dumps`: several times as fast as `asdict`."""
    names = (name for name in value.__dataclass_fields__ if name != "root" or isinstance(value, Step))
    return {name: item for name in names if (item := getattr(value, name)) or name not in _OPTIONAL}


_OPTIONAL = frozenset({"owner", "attributes", "pair", "is_unsure", "is_broken", "was_missing", "not_covered", "began"})
"""Fields that a line of the journal leaves out if they are empty."""


def parse_step(row: JsonObject) -> Step:
    """Make a step from the JSON of its line, without unknown fields; raise `KeyError`, `TypeError`, `ValueError`."""
    references = row.get("references") or _read_moved_head(row)
    changes = [{**change, "root": row["root"]} for change in row.get("changes", ())]
    step: Step = read_value(Step, {**row, "changes": changes, "references": references})
    if not step.is_unsure:
        return step
    return replace(step, changes=tuple(replace(change, is_unsure=True) for change in step.changes))


def _read_moved_head(row: JsonObject) -> list[dict[str, str]]:
    """Return the move of HEAD that version 0.2 noted as commits and branches before and after."""
    if not (commits := row.get("head")):
        return []
    branches = row.get("branch") or (HEAD, HEAD)
    values = [f"ref: {branch}" if branch != HEAD else commit for branch, commit in zip(branches, commits, strict=True)]
    rows = [(HEAD, *values)]
    if branches[0] != branches[1]:
        rows += [(branch, commit, commit) for branch, commit in zip(branches, commits, strict=True) if branch != HEAD]
    return [dict(zip(("repository", "name", "before", "after"), ("", *fields), strict=True)) for fields in rows]
