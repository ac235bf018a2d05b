"""Tell the model what the hooks after an edit changed in the edited files: a formatter, for example.

Without this the next edit quotes text that the file no longer has, and the file has to be read again after each edit.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from nexus_cli.core.services import SeenFileStore
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools.edit_preview import unified_diff
from nexus_cli.tools.files import FileContent, ToolError, decode_file, project_relative, read_real_file

MOST_CHARACTERS = 4_000
"""Most characters of a diff that the model gets."""


def read_seen_files(context: ToolContext) -> dict[Path, FileContent]:
    """Return the files of an edit that are as the session last saw them: the model knows all of them. Blocks."""
    files: dict[Path, FileContent] = {}
    seen_files: SeenFileStore | None = context.services.get(SeenFileStore)
    for path in context.targets.values():
        with suppress(OSError, ToolError):
            content = read_real_file(path)
            if seen_files is not None and seen_files.digest(str(path)) == content.digest:
                files[path] = content
    return files


def find_changes(before: Mapping[Path, FileContent]) -> dict[Path, FileContent]:
    """Return those of the files `before` the hooks that are different now. Blocks."""
    changes: dict[Path, FileContent] = {}
    for path, content in before.items():
        with suppress(OSError, ToolError):
            after = read_real_file(path)
            if after != content:
                changes[path] = after
    return changes


def describe_change(path: Path, before: FileContent, after: FileContent, context: ToolContext) -> str:
    """Return what hooks changed in a file, and note its content as seen if that is all of the change."""
    name, old, new = project_relative(path, context.project), decode_file(before.data), decode_file(after.data)
    diff = unified_diff(old.text, new.text, name) if old and new and not after.beyond else ""
    if not diff or len(diff) > MOST_CHARACTERS:
        return f"[hooks changed {name} after this call: read it before you edit it again]"
    context.service(SeenFileStore).note(str(path), after.digest, "changed")
    hunks = diff.split("\n", 2)[2].rstrip("\n")
    return f"[hooks changed {name} after this call]\n{hunks}"
