"""Plan what an undo does to references: compare their values before and after a turn with the present ones.

Pure: the present values are given. A reference that is as the turn left it gets its earlier value. One that moved on
since stays, and a command is told: the person's own commits are on it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from nexus_cli.core.grouping import group_pairs
from nexus_cli.undo.plan_restore import KEEP, NOTHING, RESTORE
from nexus_cli.undo.records import GIT_FOLDER, HEAD, ReferenceChange, Step

REFS, STASH = "refs/", "refs/stash"
SYMBOLIC = "ref: "
_SHARED = frozenset({"config", "hooks", "info", "logs", "packed-refs", "refs", "reftable", "shallow"})
"""Names of files in git's folder that all work trees share."""
_QUIT = {"MERGE_HEAD": "merge", "CHERRY_PICK_HEAD": "cherry-pick", "REVERT_HEAD": "revert", "REBASE_HEAD": "rebase"}
"""By the file that says what is not ended: git's command that ends it and changes nothing."""


class MovedHead(TypedDict):
    """A HEAD that the turn moved and that undo did not move back."""

    before: str
    after: str
    command: str
    """The command that restores the earlier value."""


@dataclass(frozen=True, slots=True)
class TurnReference:
    """The change of one reference by all steps of a turn, and what an undo does to it."""

    root: str
    change: ReferenceChange
    is_broken: bool
    """True if something else changed it between two of the steps."""
    does: str = NOTHING
    """`nothing`, `restore` or `keep`."""
    now: str = ""

    @property
    def is_change(self) -> bool:
        """True unless the turn left it as it was: then it is told for the others, as the branch of HEAD."""
        return self.change.before != self.change.after

    @property
    def git_folder(self) -> str:
        """The path of the `.git` of its repository."""
        return os.path.join(self.root, self.change.repository, GIT_FOLDER)

    def as_kept(self) -> TurnReference:
        """Return it with what could not be restored as kept."""
        return replace(self, does=KEEP) if self.does == RESTORE else self

    def as_undone(self) -> ReferenceChange:
        """Return the effect of the undo on it."""
        values = (self.change.after, self.change.before) if self.does == RESTORE else (self.now, self.now)
        return ReferenceChange(self.change.repository, self.change.name, *values)


IsSame = Callable[[str, str, str], bool]
"""Returns True if two values of a name are the same."""


def merge_references(
    steps: Iterable[Step], is_same: IsSame = lambda name, one, other: one == other
) -> list[TurnReference]:
    """Return the change of each reference from before the first of `steps` to after the last."""
    merged: dict[tuple[str, str, str], TurnReference] = {}
    for step in steps:
        for reference in step.references:
            key = step.root, reference.repository, reference.name
            first = merged.get(key)
            is_broken = first is not None and (
                first.is_broken or not is_same(reference.name, first.change.after, reference.before)
            )
            before = first.change.before if first else reference.before
            merged[key] = TurnReference(step.root, replace(reference, before=before), is_broken)
    return list(merged.values())


def plan_references(
    rows: Sequence[TurnReference],
    find_present: Callable[[str, str], Mapping[str, str]],
    is_same: IsSame,
) -> list[TurnReference]:
    """Return `rows` with what is done to each.

    `find_present` returns the values of the repository at a path of a root. Index and unfinished merges go with HEAD:
    they stay if HEAD or its branch has moved on. A branch to which the person has switched is not removed.
    """
    references = []
    for (root, repository), group in group_references(rows).items():
        present = find_present(root, repository)
        planned = [_plan(row, present.get(row.change.name, ""), is_same) for row in group]
        heads, in_use = _find_heads(planned), _find_branch_in_use(planned, present.get(HEAD, ""))
        planned = [row.as_kept() if row.change.name == in_use and not row.change.before else row for row in planned]
        has_moved = any(row.does == KEEP for row in planned if row.change.name in heads)
        for row in planned:
            references.append(row.as_kept() if has_moved and not is_shared(row.change.name) else row)
    return references


def group_references(rows: Iterable[TurnReference]) -> dict[tuple[str, str], list[TurnReference]]:
    """Return the references of each repository, by its root and its path."""
    return group_pairs(((row.root, row.change.repository), row) for row in rows)


def _plan(row: TurnReference, now: str, is_same: IsSame) -> TurnReference:
    change = row.change
    if is_same(change.name, now, change.before):
        return replace(row, now=now, does=NOTHING)
    fits = not row.is_broken and is_same(change.name, now, change.after)
    return replace(row, now=now, does=RESTORE if fits else KEEP)


def _find_branch_in_use(rows: Iterable[TurnReference], now: str) -> str:
    """Return the branch of the HEAD `now`, "" if that is planned for it or was its branch before the turn."""
    heads = [row for row in rows if row.change.name == HEAD]
    return "" if any(row.does == RESTORE or row.change.before == now for row in heads) else now.removeprefix(SYMBOLIC)


def _find_heads(rows: Iterable[TurnReference]) -> set[str]:
    """Return HEAD and the names of the branches that it was before and after, of one repository."""
    heads = [row.change for row in rows if row.change.name == HEAD]
    return {HEAD, *(value.removeprefix(SYMBOLIC) for head in heads for value in (head.before, head.after))}


def find_moved_head(rows: Sequence[TurnReference], git: str = "git", *, is_put_back: bool = False) -> MovedHead | None:
    """Return the move of HEAD that is not taken back in one repository, and the command that moves it back: to its
    branch first, as a reset would move the present one. A HEAD that the turn removed is now that of another repository,
    unless `is_put_back`: the undo has put back the turn's own."""
    changes = {row.change.name: row.change for row in rows}
    heads = _find_heads(rows)
    is_kept = any(row.does == KEEP and row.is_change for row in rows if row.change.name in heads)
    if not is_kept or HEAD not in changes or not (changes[HEAD].after or is_put_back):
        return None
    old, new = (value.removeprefix(SYMBOLIC) for value in (changes[HEAD].before, changes[HEAD].after))
    before = changes[old].before if old in changes else old
    after = changes[new].after if new in changes else new
    if old == new or not (old in changes or new in changes):
        return {"before": before, "after": after, "command": f"{git} reset --soft {before}"}
    attached = f"{git} symbolic-ref HEAD {shlex.quote(old)}"
    command = attached if old.startswith(REFS) else f"{git} update-ref --no-deref HEAD {before}"
    if before == after:
        return {"before": old, "after": new, "command": command}
    return {"before": before, "after": after, "command": f"{command} && {git} reset -q {before}"}


def find_commands(rows: Sequence[TurnReference], git: str, *, is_put_back: bool) -> dict[str, str | None]:
    """Return, for the references of one repository that stay, by name the command that gives each its earlier value;
    `is_put_back` as for `find_moved_head`."""
    moved, heads = find_moved_head(rows, git, is_put_back=is_put_back), _find_heads(rows)
    commands: dict[str, str | None] = {}
    is_other = not is_put_back and any(row.change.name == HEAD and not row.change.after for row in rows)
    for row in [row for row in rows if row.does == KEEP and row.is_change]:
        change, is_own = row.change, bool(is_other and row.now)  # of the repository that is in the place of the former
        goes_along = change.name in heads or not is_shared(change.name)
        command = "" if is_own else _find_command(change, git, moved if goes_along else None)
        commands[change.name] = command or None
    return commands


def is_shared(name: str) -> bool:
    """Return True for what all work trees share, False for HEAD, the index, a merge that is not ended."""
    return name.partition("/")[0] in _SHARED


def _find_command(change: ReferenceChange, git: str, moved: MovedHead | None) -> str:
    """Return the command that gives a reference its value of before, "" if there is none; `moved` for what goes with
    HEAD."""
    name, before = change.name, change.before
    if name in _QUIT and not before:
        return f"{git} {_QUIT[name]} --quit"
    if moved:
        return moved["command"]
    if name == STASH and before:
        return f"{git} stash store {before}"
    if name.startswith(REFS):
        if before.startswith(SYMBOLIC):
            return f"{git} symbolic-ref {shlex.quote(name)} {shlex.quote(before.removeprefix(SYMBOLIC))}"
        return (
            f"{git} update-ref {shlex.quote(name)} {before}" if before else f"{git} update-ref -d {shlex.quote(name)}"
        )
    return ""
