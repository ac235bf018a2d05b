"""Keep the record of trusted projects, and read the project files that it covers.

Each item of `.nexus` that can take effect (`trust_items`) is trusted by its hash, stored with the project's real path:
a changed item loses its trust, all others keep theirs. In a worktree of nexus the trust of the source project applies,
and its rules and hooks hold even if their files are missing or different there.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nexus_cli.config.foreign_items import KINDS
from nexus_cli.config.record_file import TRUST_RECORD, RecordFile
from nexus_cli.config.trust_files import FOLDER, LeftOut, UnfitError, find_files, read_parts
from nexus_cli.config.unasked_files import UnaskedFiles
from nexus_cli.config.worktree_record import find_source, find_worktree
from nexus_cli.core.clock import utc_now
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.wire import as_table

if TYPE_CHECKING:
    from nexus_cli.config.trust_items import TrustItem

LARGEST_TEXT = 256 * 1024
"""Most bytes of a trusted part whose text is stored, to show a diff later."""

State = Literal["trusted", "changed", "untrusted", "nothing"]
"""`trusted`: everything is in effect. `changed`: trusted once, and changed or new items are not in effect.
`nothing`: the project has no configuration."""


@dataclass(frozen=True)
class Configuration:
    """The content of a project's `.nexus`, read once, so that the checked bytes are those that take effect; on request
    also what the project has beside it for agents (`trust_beside`)."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    """Content by path relative to `.nexus`, sorted; paths of files beside it begin with `../`."""
    items: Mapping[str, TrustItem] = field(default_factory=dict)
    """The items in the files, by key."""
    problem: str = ""
    """Why nothing of it can take effect, in one line with the file's name; "" if it can."""
    left_out: tuple[LeftOut, ...] = ()
    """Files beside `.nexus`, and parts of any file, that cannot take effect."""


def read_configuration(project: Path, beside: Collection[str] = ()) -> Configuration:
    """Read the files of `project` that can take effect; of those beside `.nexus` the ones of the kinds `beside`, out of
    `foreign_items.KINDS`.

    Never raises; a project without them costs one lstat, and one for each path of these kinds.
    """
    files, left_out, problem = dict[str, bytes](), list[LeftOut](), ""
    if os.path.lexists(project / FOLDER):
        problem = _read_own(project, files)
    if beside:
        from nexus_cli.config.trust_beside import read_beside  # noqa: PLC0415  (only what is for agents)

        beside_files, left_out = read_beside(project, beside)
        files |= beside_files
    if not files:
        return Configuration(problem=problem, left_out=tuple(left_out))
    from nexus_cli.config.trust_items import split_items  # noqa: PLC0415  (few projects have such files)

    all_files, items, parts = split_items(files, project)
    return Configuration(all_files, items, problem, (*left_out, *parts))


def _read_own(project: Path, files: dict[str, bytes]) -> str:
    """Read the files of `.nexus` into `files`; return why nothing of them can take effect, "" if they can."""
    try:
        for name, _, data in read_parts(find_files(project / FOLDER, os.path.realpath(project)), UnaskedFiles(project)):
            files[name] = data
    except UnfitError as unfit:
        return str(unfit)
    except OSError as error:
        return f"{FOLDER} cannot be read ({error.strerror})"
    return ""


def trust_state(project: Path, configuration: Configuration | None = None) -> State:
    """Return the trust state of `project`; `configuration` is that of its files, if already read."""
    configuration = configuration or read_configuration(project)
    if not configuration.files and not configuration.problem:
        return "nothing"
    record = TRUST_RECORD.read_items().get(_key(project))
    if record is None:
        return "untrusted"
    return (
        "trusted"
        if not configuration.problem and len(_known_items(record, configuration)) == len(configuration.items)
        else "changed"
    )


def trusted_configuration(project: Path, configuration: Configuration | None = None) -> Configuration:
    """Return the part of the `configuration` of `project` that is in effect: unchanged trusted items."""
    configuration = configuration or read_configuration(project)
    items = trusted_items(project, configuration)
    if not items:
        return Configuration(left_out=configuration.left_out)
    from nexus_cli.config.trust_items import filter_trusted_files  # noqa: PLC0415  (as above)

    return Configuration(
        filter_trusted_files(configuration.files, configuration.items, items), items, left_out=configuration.left_out
    )


def trusted_items(project: Path, configuration: Configuration) -> dict[str, TrustItem]:
    """Return the items of `configuration` that may take effect, by key; none if it has a problem."""
    record = TRUST_RECORD.read_items().get(_key(project)) if configuration.items and not configuration.problem else None
    return _known_items(record, configuration) if record else {}


def trusted_folder(folder: Path) -> Path:
    """Return the folder whose trust applies in `folder`: in a worktree of nexus the same folder of its source project,
    else `folder`."""
    record = find_worktree(folder)
    if record is None:
        return folder
    return find_source(record.folder) / os.path.relpath(os.path.realpath(folder), record.folder)


def trust(project: Path, configuration: Configuration | None = None) -> None:
    """Trust the `configuration` of `project`, by default the current one.

    Raises `NexusError("config", ...)` if there is none or it cannot take effect, kind `internal` if the record cannot
    be written.
    """
    configuration = configuration or read_configuration(project, KINDS)
    _refuse_worktree(project)
    if configuration.problem:
        raise NexusError("config", f"{project} is not trusted", configuration.problem, "Fix or remove the file")
    if not configuration.files:
        why = "the folder has no configuration that needs trust"
        raise NexusError("config", f"{project} is not trusted", why, "No action is needed")
    items = configuration.items
    texts = {key: {name: part_text(data) for name, data in item.parts.items()} for key, item in items.items()}
    with TRUST_RECORD.change() as projects:
        _texts_of(project).write(texts)
        hashes = {key: item.sha256 for key, item in items.items()}
        projects[os.path.realpath(project)] = {"items": hashes, "at": utc_now()}


def revoke_trust(project: Path) -> bool:
    """Revoke trust; return False if there was none. Raises `NexusError("internal", ...)` if that cannot be stored."""
    _refuse_worktree(project)
    key = _key(project)
    if key not in TRUST_RECORD.read_items():
        return False
    with TRUST_RECORD.change() as projects:
        with suppress(OSError):
            _texts_of(project).path.unlink(missing_ok=True)
        return projects.pop(key, None) is not None


def trusted_texts(project: Path) -> dict[str, dict[str, str | None]]:
    """Return the trusted text of each item by key and part (None if binary or too large); {} if none is stored."""
    return _texts_of(project).read_items()


def part_text(data: bytes) -> str | None:
    """Return the text of a part of an item; None for a part that is binary or too large to store."""
    try:
        return data.decode("utf-8") if len(data) <= LARGEST_TEXT else None
    except UnicodeDecodeError:
        return None


def _known_items(record: JsonObject, configuration: Configuration) -> dict[str, TrustItem]:
    """Return the items of `configuration` whose hash is on record."""
    hashes = as_table(record.get("items"))
    return {key: item for key, item in configuration.items.items() if hashes.get(key) == item.sha256}


def _key(project: Path) -> str:
    """Return the key of a project in the record."""
    return os.path.realpath(trusted_folder(project))


def _refuse_worktree(project: Path) -> None:
    source = trusted_folder(project)
    if source != project:
        why = f"a worktree shares the trust of its project, {source}"
        raise NexusError("config", f"{project} cannot be trusted separately", why, f"Run: nexus trust {source}")


def _texts_of(project: Path) -> RecordFile:
    """Return the file with the texts of what is trusted in a project."""
    name = hashlib.sha256(os.fsencode(_key(project))).hexdigest()[:32]
    return RecordFile(f"trusted/{name}.json", "items")
