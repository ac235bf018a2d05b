"""Make a diff of the changes of one turn, from the contents that its record has."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict

from nexus_cli.core.elide import plural
from nexus_cli.core.grouping import group_pairs
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.real_files import open_folder, open_parent
from nexus_cli.core.surrogates import mask_unprintable
from nexus_cli.tools.edit_preview import file_label, unified_diff
from nexus_cli.tools.files import ToolError, decode_file, read_file_at
from nexus_cli.tree.file_state import FILE, LINK, SHA256, FileState, is_content
from nexus_cli.undo.plan_references import merge_references
from nexus_cli.undo.plan_restore import find_changes
from nexus_cli.undo.read_content import ContentReader, read_all
from nexus_cli.undo.read_references import name_references
from nexus_cli.undo.records import FileChange
from nexus_cli.undo.undo_turn import UndoRequest, changed_by

MAX_REFERENCES = 50
"""Most references of a repository that a diff names; of more only those that it had before and has."""
LARGEST = 1 << 20
"""Most bytes of a file whose lines are shown."""
MOST = 512 * 1024
"""Most characters of a diff."""


def turn_diff(request: UndoRequest) -> tuple[int | None, str, list[str]]:
    """Return the turn that is meant (None: none changed a file), the diff of its changes, and the files that the diff
    lacks; raise `NexusError` if the turn is unknown."""
    turn, steps = changed_by(request)
    changes, text, unread, size = find_changes(steps), [], [], 0
    with ContentReader(request.data) as reader:
        for change in changes:
            name = change.place.removeprefix(f"{request.project}/")
            diff = change_text(change, name.lstrip("/"), reader) if size < MOST else ""
            size += len(diff)
            text.append(diff)
            unread += [] if diff else [name]
    lost = {change.place for change in changes if change.is_lost_repository}
    rows = [row for row in merge_references(steps) if row.is_change and row.git_folder not in lost]
    for git_folder, group in group_pairs((row.git_folder, row) for row in rows).items():
        moved = name_references([asdict(row.change) for row in group])
        name = mask_unprintable(git_folder.removeprefix(f"{request.project}/"))
        listed = moved if len(moved) <= MAX_REFERENCES else {key: row for key, row in moved.items() if _is_moved(row)}
        text += [f"{key}: {_describe_move(row)}\n" for key, row in [*listed.items()][:MAX_REFERENCES]]
        if hidden_count := len(moved) - min(len(listed), MAX_REFERENCES):
            text.append(f"{name}: {plural(hidden_count, 'other reference' if listed else 'reference')} changed\n")
    return turn, "".join(text), unread


def _is_moved(reference: JsonObject) -> bool:
    """True for a reference that was there before, and is there."""
    return bool(reference["before"] and reference["after"])


def _describe_move(reference: JsonObject) -> str:
    """Return the move of a reference, with the first 12 characters of each commit."""
    before, after = reference["before"], reference["after"]
    if before.startswith(SHA256) or after.startswith(SHA256):
        return "changed" if before and after else "written" if after else "removed"
    branch = "ref: refs/heads/"
    ends = (value.removeprefix(branch) if value.startswith(branch) else value[:12] for value in (before, after))
    return mask_unprintable(" -> ".join(value or "absent" for value in ends))


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
