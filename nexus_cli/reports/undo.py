"""Report an undo or a redo of files, and the changes of one turn as a diff."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict

from nexus_cli.core.elide import name_first, plural
from nexus_cli.core.grouping import group_pairs
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.real_files import open_folder, open_parent
from nexus_cli.core.surrogates import mask_unprintable
from nexus_cli.reports.text.blocks import Blocks, Paragraph, Verbatim, Wrapped
from nexus_cli.tools.edit_preview import file_label, unified_diff
from nexus_cli.tools.files import ToolError, decode_file, read_file_at
from nexus_cli.tree.file_state import FILE, LINK, SHA256, FileState, is_content
from nexus_cli.undo.follow_changes import KILLED_SINCE
from nexus_cli.undo.plan_references import merge_references
from nexus_cli.undo.plan_restore import UNSURE, find_changes
from nexus_cli.undo.read_content import ContentReader, read_all
from nexus_cli.undo.read_references import name_references
from nexus_cli.undo.records import FileChange
from nexus_cli.undo.undo_turn import UndoRequest, changed_by

NAMED = 100
"""Most paths of a kind that are listed."""
MOST_REFERENCES = 50
"""Most references of a repository that a diff names: one that was made anew has others."""
LARGEST = 1 << 20
"""Most bytes of a file whose lines are shown."""
MOST = 512 * 1024
"""Most characters of a diff."""

UNSURE_QUESTION = "Also revert changes that may be yours?"


def undo_text(value: JsonObject) -> Blocks:
    """List what was restored, removed and kept, and what is left to the person."""
    kinds = [("restored", value["restored"]), ("removed", value["removed"])]
    counts = [f"{_count(paths)} {kind}" for kind, paths in kinds if paths]
    references = value.get("references", [])
    back = name_references([reference for reference in references if reference["restored"]])
    if back:
        counts.append(f"{plural(len(back), 'reference')} restored")
    if value["kept"]:
        counts.append(f"{len(value['kept'])} kept")
    yield _headline(value, ", ".join(counts))
    for kind, paths in kinds:
        yield from _listed([f"{kind:<9} {path}" for path in paths])
    rows = []
    unsure = [entry["path"] for entry in value["kept"] if entry["why"] == UNSURE]
    for row in [entry for entry in value["kept"] if entry["why"] != UNSURE]:
        suffix = f"; earlier version: {row['aside']}" if row["aside"] else ""
        rows.append(f"kept      {row['path']} ({row['why']}){suffix}")
    yield from _listed(rows)
    yield from _listed(
        [f"{'restored' if taken_back['before'] else 'removed':<9} {name}" for name, taken_back in back.items()]
    )
    for name, reference in name_references(
        [reference for reference in references if not reference["restored"]]
    ).items():
        if reference["command"] != (value["head_moved"] or {}).get("command"):
            how = ". To move it back:" if reference["command"] else ""
            yield Wrapped(f"kept      {name} (has moved since){how}", "  ")
            if how:
                yield Verbatim(reference["command"] or "", "  ")
    if moved := value["head_moved"]:
        after = moved["after"].removeprefix("refs/heads/") if "/" in moved["after"] else moved["after"][:12]
        yield f"HEAD was moved and is still at {mask_unprintable(after)}. To move it back:"
        yield Verbatim(moved["command"], "  ")
    if unsure:
        yield f"{describe_unsure(unsure)} To revert them, undo the turn with --all or with their paths."
    for subject in value["unfollowed"]:
        command = subject.removesuffix(f": {KILLED_SINCE}")
        text = f"{value['action'].capitalize()} does not cover {subject}"
        if command != subject:
            text = (
                f"nexus was killed during {command}. All changes until you used the session again, including your own, "
                "count as changes of this turn."
            )
        yield mask_unprintable(text)


def describe_unsure(paths: Sequence[str], project: str = "") -> str:
    """Return a line with the paths that an undo leaves because they may be the person's."""
    names = name_first([mask_unprintable(path.removeprefix(f"{project}/")) for path in paths], 10)
    return f"Possibly yours (changed while a command ran): {names}."


def _count(paths: Sequence[str]) -> str:
    """Return the number of files and folders; the paths of folders end with `/`."""
    folders = sum(path.endswith("/") for path in paths)
    files = plural(len(paths) - folders, "file") if len(paths) > folders else ""
    return " and ".join(filter(None, (files, plural(folders, "folder") if folders else "")))


def _headline(value: JsonObject, counts: str) -> str:
    verb, turn, newest = value["action"], value["turn"], value.get("newest_turn")
    if not counts and any(not subject.endswith(KILLED_SINCE) for subject in value["unfollowed"]):
        return f"Nothing to {verb} in the covered files."
    if not counts:
        return f"Nothing to {verb}." if turn is None else f"Nothing to {verb} in turn {turn}."
    if turn is None:
        return f"Nothing {verb}ne: {counts}."
    past_verb = {"undo": "Undid", "redo": "Redid"}[verb]
    which = f"turns {turn} to {newest}" if newest not in (None, turn) else f"turn {turn}"
    return f"{f'Would {verb}' if value['dry_run'] else past_verb} {which}: {counts}."


def _listed(rows: Sequence[str]) -> Blocks:
    """Yield the first rows, and how many more there are."""
    yield from (Wrapped(mask_unprintable(row), "  ") for row in rows[:NAMED])
    if len(rows) > NAMED:
        yield Paragraph(f"[and {len(rows) - NAMED:,} more]", "  ")


def turn_diff(request: UndoRequest) -> tuple[int | None, str, list[str]]:
    """Return the turn that is meant (None: none changed a file), the diff of its changes, and the files that the diff
    lacks; raise `NexusError` if the turn is unknown."""
    turn, steps = changed_by(request)
    text, unread, size = [], [], 0
    with ContentReader(request.data) as reader:
        for change in find_changes(steps):
            name = change.place.removeprefix(f"{request.project}/")
            diff = change_text(change, name.lstrip("/"), reader) if size < MOST else ""
            size += len(diff)
            text.append(diff)
            unread += [] if diff else [name]
    lost = {change.place for change in find_changes(steps) if change.is_lost_repository}
    rows = [row for row in merge_references(steps) if row.is_change and row.git_folder not in lost]
    for git_folder, group in group_pairs((row.git_folder, row) for row in rows).items():
        moved = name_references([asdict(row.change) for row in group])
        name = mask_unprintable(git_folder.removeprefix(f"{request.project}/"))
        text += (
            [f"{name}: {plural(len(moved), 'reference')} changed\n"]
            if len(moved) > MOST_REFERENCES
            else [f"{name}: {_describe_move(reference)}\n" for name, reference in moved.items()]
        )
    return turn, "".join(text), unread


def _describe_move(reference: JsonObject) -> str:
    """Return the move of a reference, with the first 12 characters of each commit."""
    before, after = reference["before"], reference["after"]
    if before.startswith(SHA256) or after.startswith(SHA256):
        return "changed" if before and after else "written" if after else "removed"
    branch = "ref: refs/heads/"
    shown = (value.removeprefix(branch) if value.startswith(branch) else value[:12] for value in (before, after))
    return mask_unprintable(" -> ".join(value or "absent" for value in shown))


def change_text(change: FileChange, name: str, reader: ContentReader) -> str:
    """Return the diff of one path; "" if it is large, not text, or not kept."""
    kinds, name = (change.before.kind, change.after.kind), mask_unprintable(name)
    head = _rights_text(change, name) if len(set(kinds)) == 1 else ""
    if {FILE, LINK}.isdisjoint(kinds):
        return head or f"{name}: {kinds[0]} -> {kinds[1]}\n"
    before, after = (_state_text(change, state, reader) for state in (change.before, change.after))
    if before is None or after is None:
        return head
    is_new = change.before.kind not in (FILE, LINK)
    diff = unified_diff(None if is_new else before, after, name)
    if change.after.kind not in (FILE, LINK):
        removed = diff.replace(f"\n+++ b/{file_label(name)}\n", "\n+++ /dev/null\n", 1)
        diff = removed or f"--- a/{file_label(name)}\n+++ /dev/null\n"
    return head + diff


def _rights_text(change: FileChange, name: str) -> str:
    """Return a line for each right of a path that was changed."""
    before, after = change.before, change.after
    lines = [f"mode of {name}: {before.mode:04o} -> {after.mode:04o}\n"] if before.mode != after.mode else []
    rights = {"owner": "owner", "attributes": "attributes", "pair": "hard links"}
    lines += [
        f"{label} of {name}: changed\n" for key, label in rights.items() if getattr(before, key) != getattr(after, key)
    ]
    return "".join(lines)


def _state_text(change: FileChange, state: FileState, reader: ContentReader) -> str | None:
    if state.kind != FILE:
        return f"link to {mask_unprintable(state.target)}\n" if state.kind == LINK else ""
    data = read_all(reader, change.root, state.content, LARGEST)
    if data is None and state is change.after:  # only its digest is known: the file may still be the same
        data = _read_present(change, state)
    read = None if data is None else decode_file(data)
    return None if read is None else read.text


def _read_present(change: FileChange, state: FileState) -> bytes | None:
    """Return the bytes of a file if it is still in `state`."""
    with suppress(OSError, ToolError), open_folder(change.root) as root, open_parent(change.path, inside=root) as place:
        data = read_file_at(*place, LARGEST).data
        return data if is_content(data, state.content) else None
    return None
