"""Tell the model what the hooks after an edit changed in the edited files: a formatter, for example.

Without this the next edit quotes text that the file no longer has, and the file has to be read again after each edit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from nexus_cli.core.services import SeenFileStore
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools.edit_preview import unified_diff
from nexus_cli.tools.files import ToolError, decode_file, project_relative, read_real_file, sha256_hex

MAX_CHARACTERS = 4_000
"""Most characters of a diff that the model gets."""
LARGEST = 1 << 20
"""Most bytes of a file whose change is told."""


def read_files(paths: Iterable[Path]) -> dict[Path, bytes]:
    """Return the content of the files that can be read. Blocks."""
    contents: dict[Path, bytes] = {}
    for path in paths:
        with suppress(OSError, ToolError):
            contents[path] = read_real_file(path).data
    return contents


def describe_changes(before: Mapping[Path, bytes], after: Mapping[Path, bytes], context: ToolContext) -> Iterator[str]:
    """Yield a text on each file that hooks changed and that the model knew; note that the model was told, and the new
    content if it gets the whole change. Blocks: a diff of a large file takes a second."""
    seen_files: SeenFileStore | None = context.services.get(SeenFileStore)
    for path, data in after.items():
        known_digest = sha256_hex(before[path])
        if data == before[path] or seen_files is None or seen_files.digest(str(path)) != known_digest:
            continue
        name = project_relative(path, context.project)
        contents = before[path], data
        old, new = (decode_file(content) if len(content) <= LARGEST else None for content in contents)
        diff = unified_diff(old.text, new.text, name) if old and new else ""
        if not diff or len(diff) > MAX_CHARACTERS:
            seen_files.note(str(path), known_digest, "changed")
            yield f"[hooks changed {name} after this call: read it before you edit it again]"
            continue
        seen_files.note(str(path), sha256_hex(data), "changed")
        hunks = diff.split("\n", 2)[2].rstrip("\n")
        yield f"[hooks changed {name} after this call]\n{hunks}"
