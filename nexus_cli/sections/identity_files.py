"""Identity of the agent and preferences of the person: SOUL.md, IDENTITY.md, AGENT.md, PREFERENCES.md.

The personal config folder always counts. A project's `.nexus` folder may add to the identity only while the project is
trusted: otherwise a cloned repository could define the agent's identity. `loader` reads instructions (NEXUS.md).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nexus_cli.config.paths import places, project_root
from nexus_cli.config.text_file import FileText, decode_head, describe_special_file, read_text
from nexus_cli.config.trust import trusted_configuration
from nexus_cli.config.trust_files import FOLDER
from nexus_cli.core.elide import Count, drop_marker, elide_text, one_line, plural, trim_text
from nexus_cli.core.errors import NexusError
from nexus_cli.core.message import replace_surrogates
from nexus_cli.sections.section import DROP, STAND_IN, unread_note

IDENTITY = ("SOUL.md", "IDENTITY.md", "AGENT.md")
PREFERENCES = "PREFERENCES.md"
LIMIT = 1024 * 1024
"""Bytes of one file that are read."""
SHORT = 160
"""Tokens up to which a text has one form."""
HEADINGS, WIDEST = 12, 80
"""Most headings in an outline, and most characters of one."""
LEAST, MOST = 100, 1000
"""Tokens of a shortened text."""


@dataclass(frozen=True, slots=True)
class IdentityFile:
    """One of the files."""

    name: str
    """`SOUL.md`."""
    text: str
    """The text without blank lines around it; "" if it could not be read."""
    path: str
    origin: str = "personal"
    """`personal` or `project`."""
    notice: str = ""
    """One line for the person about a problem with it."""
    beyond: int = 0
    """Bytes of the file that were not read."""


def read_identity_files(names: Sequence[str], cwd: Path) -> tuple[IdentityFile, ...]:
    """Return the files of these names that have text, personal ones first. Raises nothing."""
    return tuple(text for text in _find_files(names, cwd) if text.text or text.notice)


def _find_files(names: Sequence[str], cwd: Path) -> Iterator[IdentityFile]:
    for name in names:
        path = places().config / name
        yield _read_file(partial(read_text, path, LIMIT), path, name, "personal")
    root = project_root(cwd)
    identity_names = [name for name in names if name in IDENTITY and os.path.lexists(root / FOLDER / name)]
    trusted = trusted_configuration(root).files if identity_names else {}
    for name in filter(trusted.__contains__, identity_names):  # uses the bytes that were judged: nothing is read again
        path, data = root / FOLDER / name, trusted[name]
        yield _read_file(partial(decode_head, data, replace_surrogates(str(path)), LIMIT), path, name, "project")


def _read_file(read: Callable[[], FileText | None], path: Path, name: str, origin: str) -> IdentityFile:
    location = replace_surrogates(str(path))
    try:
        file_text = read()
    except NexusError as error:
        return IdentityFile(name, "", location, origin, one_line(f"{error.message}; skipped"))
    if file_text is None:
        return IdentityFile(name, "", location, origin, one_line(describe_special_file(path)))
    text = trim_text(file_text.text)
    return IdentityFile(
        name,
        replace_surrogates(text + unread_note(file_text.beyond, name)),
        location,
        origin,
        file_text.notice,
        file_text.beyond,
    )


def section_forms(header: str, text: str, count: Count) -> tuple[str, ...]:
    """Return the forms of `text` under its header, from full to pointer; each has fewer tokens than the one before.

    Offsets in the markers are those of the full form, which the drop will have.
    """
    full = f"{header}\n{text}"
    size = count(full)
    if size <= SHORT:
        return (full,)
    shortened = elide_text(full, min(MOST, max(LEAST, size // 3)), count, drop_marker(DROP)).text
    headings = list(_headings(text))
    rest_line = f'[... {size:,} tokens left out: recall("{DROP}") ...]'
    some = headings[:HEADINGS]
    if len(headings) > HEADINGS:
        more = len(headings) - HEADINGS
        some.append(f"(and {plural(more, 'more heading')})")
    outline = "\n".join([header, *some, rest_line])
    forms = (
        [full, shortened, outline, f"{header}\n{rest_line}"] if some else [full, shortened, f"{header}\n{rest_line}"]
    )
    return shrink_forms(forms, count)


def shrink_forms(forms: Sequence[str], count: Count) -> tuple[str, ...]:
    """Return the first and last of `forms`, and those between them that get smaller; the last only if it is smaller
    than the first."""
    first, *between, last = forms if len(forms) > 1 else (*forms, *forms)
    shrinking, sizes, least = [first], [count(first)], _size(last, count)
    if least >= sizes[0]:
        return (first,)
    for form in between:
        size = _size(form, count)
        if form.strip() and least < size < sizes[-1]:
            shrinking.append(form)
            sizes.append(size)
    return (*shrinking, last)


def _size(form: str, count: Count) -> int:
    return count(form.replace(DROP, STAND_IN))


def _headings(text: str) -> Iterator[str]:
    """Yield the headings of Markdown outside of code blocks."""
    code = False
    for line in text.splitlines():
        code ^= line.lstrip().startswith(("```", "~~~"))
        if line.startswith("#") and not code:
            yield one_line(line)[:WIDEST]
