"""Read and write files as the person's editor shows them, where it gives its texts (`core.services.EditorTexts`).

The editor is asked for files of UTF-8 without a byte order mark that are on the disk. Its text counts where it differs
from the disk in more than line ends: it is unsaved then, and stands for the bytes that the editor would save. Not so if
the text is as before and the file has changed: the editor has not read the file again.

An unsaved text is saved through the editor before nexus changes the file, so that the disk has what undo goes back to.
What nexus writes goes through the editor too, and is looked for on the disk afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nexus_cli.core.decode import DecodedText
from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import EditorTexts, SeenFileStore
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools.atomic_write import replace_file
from nexus_cli.tools.cancellable_thread import StopFlag, run_in_thread
from nexus_cli.tools.files import (
    FileContent,
    ToolError,
    decided_path,
    decode_file,
    encode_text,
    keep_line_ends,
    main_line_end,
    read_real_file,
    sha256_hex,
    to_lf,
)

LARGEST = 8 << 20
"""Most bytes of a file for whose text the editor is asked: it answers in one line of JSON."""
UNKNOWN = "its text could not be read"
STALE = "changed on disk since it was read: read it again"
CONFLICTING_CHANGES = "the file changed on disk since it was read: read it before edits that depend on other lines"


def read_shown_file(path: Path, services: Mapping[type, Any]) -> FileContent:
    """Return the file at a real path with the editor's text if that is unsaved. Raises as `read_real_file`, and
    `ToolError` if the file changes meanwhile."""
    content, editor = read_real_file(path), services.get(EditorTexts)
    text = _find_text(path, content, editor) if editor else None
    return content if text is None else FileContent(encode_text(None, text))


def read_for_edit(path: Path, context: ToolContext) -> tuple[FileContent, bool]:
    """Return the file at a real path as `read_shown_file` does, and whether it is not as the session last saw it; raise
    `ToolError` if it is too large."""
    content = read_shown_file(path, context.services)
    if content.beyond:
        raise ToolError("is over 64 MiB")
    seen_digest = context.service(SeenFileStore).digest(str(path))
    return content, seen_digest not in (None, content.digest)


def note_written(path: Path, before: str, digest: str, seen_files: SeenFileStore) -> None:
    """Note that a call replaced the content with the digest `before` ("": no file). Of a file that had changed since it
    was read the older digest stays noted, so that nothing overwrites what was never read."""
    seen_digest = seen_files.digest(str(path))
    is_stale = bool(before) and seen_digest not in (None, before)
    seen_files.note(str(path), seen_digest if seen_digest and is_stale else digest, "changed" if before else "created")


def write_shown_file(
    path: Path, data: bytes, stop: StopFlag, services: Mapping[type, Any], *, expected: str | None
) -> None:
    """Replace a file as `replace_file` does, through the editor if that gives its text. A new file is not, because
    the editor might hold unsaved text of one that was removed."""
    editor = services.get(EditorTexts)
    text = _find_text(path, read_real_file(path), editor) if editor and expected is not None else None
    if editor and text is not None and (sha256_hex(encode_text(None, text)) != expected or path in editor.unsaved):
        raise ToolError("changed in the editor meanwhile: read it again")
    if editor is None or text is None:
        replace_file(path, data, stop, expected=expected)
        return
    stop.raise_if_pressed()
    if why := editor.write(path, data.decode()):  # a refusal of the person's, perhaps: not for the disk either
        raise ToolError(f"the editor did not save it: {why}")
    _complete(path, data, expected, stop)
    with suppress(OSError, ToolError):  # if the editor has taken the text, what it shows next is typed
        _find_text(path, read_real_file(path), editor)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that a call has written."""

    before: str
    """The digest of the content that it replaced, "" for a new file."""
    digest: str
    result: ToolResult


async def write_noted(path: str, context: ToolContext, write: Callable[[Path, StopFlag], WrittenFile]) -> ToolResult:
    """Return the result of `write`, which changes the file at `path` in a thread. What it has written is noted for the
    session, even if the call is cancelled meanwhile. Raises what `write` raises."""
    seen_files, target = context.service(SeenFileStore), decided_path(path, context)

    def note(written_file: WrittenFile) -> None:
        note_written(target, written_file.before, written_file.digest, seen_files)
        context.replaced(target, written_file.before, written_file.digest)

    return (await run_in_thread(lambda stop: write(target, stop), note)).result


def find_unsaved(root: Path, paths: Iterable[Path], services: Mapping[type, Any]) -> list[str]:
    """Return the names below `root` of the files whose text in the editor is unsaved: those of `paths`, and others that
    the session knows of. Blocks."""
    if (editor := services.get(EditorTexts)) is None:
        return []
    for path in {*paths, *editor.unsaved}:
        with suppress(OSError, ToolError):
            _find_text(path, read_real_file(path), editor)
    return [str(path.relative_to(root)) for path in sorted(editor.unsaved) if path.is_relative_to(root)]


def save_text(path: Path, editor: EditorTexts, stop: StopFlag) -> str:
    """Let the editor save its text of a file if that is unsaved. Return why the disk does not have it, "" if it has.
    Blocks."""
    try:
        disk = read_real_file(path)
        text = _find_text(path, disk, editor)
        if path not in editor.unsaved:
            return ""
        if text is None and editor.compared[path][0] == disk.digest:
            return UNKNOWN
        if text is not None:
            stop.raise_if_pressed()
            if why := editor.write(path, text):
                return why
            _complete(path, encode_text(None, text), disk.digest, stop)
    except FileNotFoundError:
        pass  # the editor's text is not of this file any more
    except (OSError, ToolError) as error:
        return str(error) if path in editor.unsaved else ""
    editor.unsaved.pop(path, None)
    return ""


def show_disk(path: Path, editor: EditorTexts) -> None:
    """Give the editor a file that has changed on the disk, if its text is still the one that the disk had. Blocks."""
    digest, before = editor.compared.get(path, ("", None))
    with suppress(OSError, ToolError, ValueError):
        after, text = read_real_file(path).data.decode(), editor.read(path)
        if digest and text == before is not None and path not in editor.unsaved and not _is_same(before, after):
            editor.write(path, after)


def _find_text(path: Path, disk: FileContent, editor: EditorTexts) -> str | None:
    """Return the text that the editor would save, None if it gives none. `editor.unsaved` then has it if it is another
    one than that of the `disk`."""
    form = decode_file(disk.data) if len(disk.data) <= LARGEST else None
    if form is None or form != DecodedText(form.text):
        return None
    text = editor.read(path)
    if text is None:
        return None
    editor.unsaved.pop(path, None)
    digest, compared_text = editor.compared.get(path, (disk.digest, text))
    if _is_same(text, form.text):
        editor.compared[path] = disk.digest, text
        return form.text
    if digest != disk.digest and compared_text in (None, text):
        editor.compared[path] = "", text
        return None
    if read_real_file(path) != disk:  # also if a link was put there, which the editor has followed
        raise ToolError("changed while it was read: read it again")
    editor.compared[path] = disk.digest, text
    editor.unsaved[path] = keep_line_ends(form.text, text, main_line_end(form.text))
    return editor.unsaved[path]


def _is_same(text: str, other: str) -> bool:
    """Return True for texts that differ at most in line ends: some editors do not give the last one."""
    return to_lf(text).removesuffix("\n") == to_lf(other).removesuffix("\n")


def _complete(path: Path, data: bytes, before: str | None, stop: StopFlag) -> None:
    """Write a file that is still as `before`, because the editor took the text and has not saved it. If it has saved
    another one (a formatter), the session's next edit finds that the file has changed."""
    if read_real_file(path).digest == before != sha256_hex(data):
        replace_file(path, data, stop, expected=before)
