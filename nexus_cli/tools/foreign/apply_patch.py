"""`apply_patch`: a patch between `*** Begin Patch` and `*** End Patch`, applied to all its files or to none.

Lines are compared exactly. Each file of the patch is a path of the call, so that permission decides on all of them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nexus_cli.core.errors import reason_of
from nexus_cli.core.file_names import resolve_spelling
from nexus_cli.core.message import ToolResult
from nexus_cli.core.real_files import open_at, open_folder, stat_at
from nexus_cli.core.services import SeenFileStore
from nexus_cli.core.tool import EditPreview, ToolContext
from nexus_cli.tools.atomic_write import locked_folder, replace_file
from nexus_cli.tools.cancellable_thread import StopFlag, run_in_thread
from nexus_cli.tools.edit_preview import check_before, describe_edit, name_changed_lines, unified_diff
from nexus_cli.tools.editor_texts import CONFLICTING_CHANGES, STALE, note_written, read_for_edit, write_shown_file
from nexus_cli.tools.exact_edit import ExactEdit, apply_edits, describe_nearest, find_lines
from nexus_cli.tools.files import (
    ToolError,
    decode_file,
    describe_problem,
    encode_text,
    keep_line_ends,
    near_line_end,
    project_relative,
    read_file_at,
    sha256_hex,
    split_lines,
)
from nexus_cli.tools.foreign_calls import ADD, DELETE, MOVE, PATCH_BEGIN, UPDATE, split_patch
from nexus_cli.tools.omission import find_new_omission

_END, _END_OF_FILE = "*** End Patch", "*** End of File"


@dataclass(frozen=True, slots=True)
class ApplyPatchArguments:
    """The arguments of `apply_patch`."""

    paths: tuple[str, ...]
    patch: str


@dataclass
class _Hunk:
    """One changed passage."""

    anchor: str = ""
    """The line after `@@`, from which the passage is searched; "" for the beginning."""
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    at_end: bool = False


@dataclass
class _FilePatch:
    """The change of one file."""

    kind: str
    path: str
    moved: str = ""
    hunks: list[_Hunk] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Change:
    """A change that is ready to be written."""

    path: str
    target: Path
    digest: str
    """Of the content before; "" for no file."""
    before: str | None
    after: str | None
    """The new text; None if the file is deleted."""
    data: bytes
    moved: Path | None = None
    is_stale: bool = False
    """True if the file changed since it was read."""

    @property
    def place(self) -> Path:
        """The path of the file afterwards."""
        return self.moved or self.target


async def run(arguments: ApplyPatchArguments, context: ToolContext) -> ToolResult:
    """Return the numbers of the changed lines of each file, or an error (and no change) if the patch does not apply."""
    seen_files = context.service(SeenFileStore)
    applied: list[_Change] = []

    def work(stop: StopFlag) -> None:
        changes = _prepare(arguments.patch, context, stop)
        check_before(context, _digest(changes))
        for change in changes:
            try:
                _write(change, stop, context)
            except (OSError, ToolError) as problem:
                raise ToolError(describe_problem(change.path, problem, context)) from problem
            applied.append(change)

    error = ""
    try:
        await run_in_thread(work)
    except (OSError, ToolError) as problem:
        error = _describe(problem, applied)
    finally:
        for change in applied:
            _note(change, seen_files, context)
    names = [
        project_relative(path, context.project) for change in applied for path in (change.target, change.moved) if path
    ]
    output_lines = [
        part
        for change in applied
        for part in (_title(change), name_changed_lines(change.before or "", change.after or ""))
    ]
    edits = tuple(
        describe_edit(change.place, change.before or "", change.after) for change in applied if change.after is not None
    )
    output = "" if error else "\n".join(output_lines)
    return ToolResult(output, error, changed=tuple(names), diff=_diff(applied, context), edits=edits)


async def check(arguments: ApplyPatchArguments, context: ToolContext) -> ToolResult | None:
    """Return the error of a patch that does not apply, None if it does."""
    try:
        await run_in_thread(lambda stop: _prepare(arguments.patch, context, stop))
    except (OSError, ToolError) as problem:
        return ToolResult(error=_describe(problem, []))
    return None


def preview(arguments: ApplyPatchArguments, context: ToolContext) -> EditPreview:
    """Return the patch as a unified diff; "" if it does not apply."""
    try:
        changes = _prepare(arguments.patch, context, StopFlag())
    except (OSError, ToolError, KeyError):
        return EditPreview()
    return EditPreview(_diff(changes, context), _digest(changes))


# -- reading a patch ---------------------------------------------------------------------------------------------------


def _parse(patch: str) -> list[_FilePatch]:
    """Return the changes of a patch. Raises `ToolError` with the line that is wrong."""
    lines = split_patch(patch.strip())
    if not lines or lines[0].strip() != PATCH_BEGIN or lines[-1].strip() != _END:
        raise ToolError(f"the patch must begin with the line `{PATCH_BEGIN}` and end with the line `{_END}`")
    files: list[_FilePatch] = []
    for number, line in enumerate(lines[1:-1], 2):
        head = next((head for head in (ADD, UPDATE, DELETE) if line.startswith(head)), "")
        if head:
            files.append(_FilePatch(head, line[len(head) :].strip()))
        elif not files or not _take_line(files[-1], line):
            raise ToolError(f"line {number} of the patch is not understood: {line[:80]!r}")
    if not files:
        raise ToolError("the patch names no file")
    return files


def _take_line(file: _FilePatch, line: str) -> bool:
    """Add one line of the patch to a file; return False if it does not belong there."""
    sign, text = line[:1] or " ", line[1:]
    is_update = file.kind == UPDATE
    if is_update and line.startswith(MOVE) and not (file.hunks or file.moved):
        file.moved = line[len(MOVE) :].strip()
    elif is_update and line.startswith("@@"):
        file.hunks.append(_Hunk(line[2:].strip()))
    elif is_update and line.strip() == _END_OF_FILE and file.hunks:
        file.hunks[-1].at_end = True
    elif file.kind == DELETE or sign not in (" +-" if is_update else "+"):
        return False
    else:
        if not file.hunks:
            file.hunks.append(_Hunk())
        file.hunks[-1].old += [text] * (sign in " -")
        file.hunks[-1].new += [text] * (sign in " +")
    return True


# -- applying it -------------------------------------------------------------------------------------------------------


def _prepare(patch: str, context: ToolContext, stop: StopFlag) -> list[_Change]:
    """Return the changes of all files. Raises `OSError` and `ToolError` if one of them does not apply."""
    changes: list[_Change] = []
    touched: set[Path] = set()
    for file in _parse(patch):
        paths = [_decided(path, context) for path in (file.path, file.moved) if path]
        if touched.intersection(paths) or len(set(paths)) < len(paths):
            raise ToolError(f"{file.path}: a patch may change a file only once")
        touched.update(paths)
        try:
            if file.kind == DELETE or file.moved:
                _refuse_link(file.path, context)
            changes.append(_change(file, paths, context, stop))
        except (OSError, ToolError) as problem:
            raise ToolError(describe_problem(file.path, problem, context)) from problem
        below = next((path for path in sorted(touched) if touched.intersection(path.parents)), None)
        if below is not None:
            raise ToolError(f"{project_relative(below, context.project)}: the patch also uses its folder as a file")
    return changes


def _refuse_link(path: str, context: ToolContext) -> None:
    """Raise `ToolError` for a link: the call was decided for the file that it leads to."""
    if Path(resolve_spelling(str(context.cwd), path)).is_symlink():
        leads = project_relative(context.targets[path], context.project)
        raise ToolError(f"is a link to {leads}: a patch can only delete or move that file, not the link")


def _decided(path: str, context: ToolContext) -> Path:
    if path not in context.targets:
        raise ToolError(f"{path} is not one of `paths`")
    return context.targets[path]


def _change(file: _FilePatch, paths: Sequence[Path], context: ToolContext, stop: StopFlag) -> _Change:
    target, moved = paths[0], paths[1] if len(paths) > 1 else None
    new = target if file.kind == ADD else moved
    if new is not None:
        if os.path.lexists(new):
            raise ToolError(f"{new.name} already exists")
        above = next(folder for folder in new.parents if os.path.lexists(folder))
        if not above.is_dir():
            raise ToolError(f"{above.name} is a file, not a folder")
    if file.kind == ADD:
        text = "".join(f"{line}\n" for hunk in file.hunks for line in hunk.new)
        return _Change(file.path, target, "", None, text, encode_text(None, text))
    content, is_stale = read_for_edit(target, context)
    decoded = decode_file(content.data)
    if file.kind == DELETE:
        if is_stale:
            raise ToolError(STALE)
        return _Change(file.path, target, content.digest, decoded.text if decoded else "", None, b"")
    if decoded is None:
        raise ToolError("is binary")
    if not file.hunks and moved is None:
        raise ToolError("the patch does not change this file")
    try:
        after = _apply_hunks(decoded.text, file.hunks, stop)
    except ToolError as error:
        if is_stale:
            raise ToolError(STALE) from error
        raise
    data = encode_text(decoded, after)
    return _Change(file.path, target, content.digest, decoded.text, after, data, moved, is_stale)


def _apply_hunks(text: str, hunks: Sequence[_Hunk], stop: StopFlag) -> str:
    """Apply the hunks in order, each behind the one before. Raises `ToolError` if a passage is not found once."""
    lines = split_lines(text)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + sum(map(len, line)))
    bodies = [body for body, _ in lines]
    parts, position, first, added = list[str](), 0, 0, ""
    for number, hunk in enumerate(hunks, 1):
        stop.raise_if_pressed()
        if not hunk.old and not hunk.anchor:
            added += "".join(f"{line}\n" for line in hunk.new)
            continue
        passage = _find_passage(bodies, hunk, first, number, stop)
        begin, end = starts[passage], starts[passage + len(hunk.old)]
        old, new = text[begin:end], "".join(f"{line}\n" for line in hunk.new)
        if omitted := find_new_omission(old, new):
            raise ToolError(f"the patch has a placeholder for omitted text, {omitted[:80]!r}. Write out every line")
        if old and not old.endswith(("\n", "\r")):
            new = new.removesuffix("\n")
        parts += [text[position:begin], keep_line_ends(old, new, near_line_end(text, begin, end))]
        position, first = end, passage + len(hunk.old)
    after = "".join(parts) + text[position:]
    return apply_edits(after, [ExactEdit("", added)], stop).text if added else after


def _find_passage(bodies: Sequence[str], hunk: _Hunk, first: int, number: int, stop: StopFlag) -> int:
    """Return the index of the only passage, or of the first one behind the line that the hunk names. Raises
    `ToolError`."""
    behind, start = f" after line {first}" if first else "", first
    if hunk.anchor:
        anchor = next((index for index in range(first, len(bodies)) if bodies[index].strip() == hunk.anchor), None)
        if anchor is None:
            raise ToolError(f"hunk {number}: no line {hunk.anchor[:80]!r}{behind}")
        if not hunk.old:
            raise ToolError(f"hunk {number}: an addition after @@ needs a line of context")
        start = anchor + (hunk.old[0].strip() != hunk.anchor)
    last = len(bodies) - len(hunk.old)
    if hunk.at_end and last >= start and bodies[last:] == hunk.old:
        return last
    places = find_lines(bodies[start:], hunk.old, stop)
    if not places:
        remaining, wanted = "\n" * first + "\n".join(bodies[first:]), "\n".join(hunk.old)
        nearest = describe_nearest(remaining, wanted, stop, "the old lines of the hunk")
        raise ToolError(f"hunk {number}: its old lines do not occur{behind}{nearest}")
    if hunk.at_end:
        raise ToolError(f"hunk {number}: its old lines are not at the end of the file")
    if len(places) > 1 and not hunk.anchor:
        lines = " and ".join(str(start + index + 1) for index in places)
        raise ToolError(f"hunk {number}: its lines occur more than once (lines {lines}): add context, or an @@ line")
    return start + places[0]


# -- writing it --------------------------------------------------------------------------------------------------------


def _write(change: _Change, stop: StopFlag, context: ToolContext) -> None:
    with locked_folder(change.target.parent, stop, create=not change.digest):
        if change.after is not None and change.moved is None:
            if change.after != change.before or not change.digest:
                write_shown_file(change.target, change.data, stop, context.services, expected=change.digest or None)
            return
        with open_folder(change.target.parent) as folder:
            if read_file_at(folder, change.target.name).digest != change.digest:
                raise ToolError("changed on disk meanwhile: read it again")
            if change.moved is None:
                os.unlink(change.target.name, dir_fd=folder)
                return
            mode = stat_at(folder, change.target.name).st_mode
            with open_folder(change.moved.parent, create=True) as target_folder:  # it may be on another file system
                replace_file(change.moved, change.data, stop, expected=None)
                try:
                    with open(open_at(target_folder, change.moved.name), "rb") as file:
                        os.fchmod(file.fileno(), stat.S_IMODE(mode))
                    os.unlink(change.target.name, dir_fd=folder)
                except OSError:
                    os.unlink(change.moved.name, dir_fd=target_folder)
                    raise


def _note(change: _Change, seen_files: SeenFileStore, context: ToolContext) -> None:
    digest = sha256_hex(change.data)
    if change.after is not None and not (change.moved and change.is_stale):
        note_written(change.place, change.digest, digest, seen_files)
    context.replaced(change.target, change.digest, "" if change.after is None or change.moved else digest)
    if change.moved:
        context.replaced(change.moved, "", digest)


def _digest(changes: Sequence[_Change]) -> str:
    return sha256_hex(" ".join(change.digest for change in changes).encode())


def _title(change: _Change) -> str:
    note = f" [{CONFLICTING_CHANGES}]" if change.is_stale else ""
    if change.moved is not None:
        return f"moved {change.path} to {change.moved.name}{note}"
    return f"{'deleted' if change.after is None else 'updated' if change.digest else 'created'} {change.path}{note}"


def _diff(changes: Sequence[_Change], context: ToolContext) -> str:
    return "".join(
        unified_diff(change.before, change.after or "", project_relative(change.place, context.project))
        for change in changes
    )


def _describe(problem: OSError | ToolError, applied: Sequence[_Change]) -> str:
    why = reason_of(problem)
    changed = f"Already done: {', '.join(map(_title, applied))}." if applied else "Nothing was changed."
    return f"{why}\n{changed}"
