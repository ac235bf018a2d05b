"""The lines that the session has queued for the model: a limit that was lowered, a file that changed, a missing tool.

Each batch is sent once; the session empties the queue after sending.
"""

from __future__ import annotations

from nexus_cli.context.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.context.sections.identity_files import shrink_forms
from nexus_cli.context.sections.section import DROP, Layer, Phase, Section
from nexus_cli.core.elide import one_line

FEW = 3
SHORT = 200
"""Characters of one notice in the short form."""


def read(sources: Sources) -> Value:
    """Return the queued lines in order."""
    return [line for line in map(one_line, sources.notices()) if line.strip()]


def render(value: Value, view: View) -> tuple[Section, ...]:
    """Return one section with a line for each notice. Its short form has the first few, shortened, and the number of
    the others; the last form only their number."""
    if not value:
        return ()
    lines = [f"[nexus: {line}]" for line in value]
    short = [f"[nexus: {_shorten(line)}]" for line in value[:FEW]]
    rest = len(value) - FEW
    if rest > 0:
        short.append(f'[nexus: and {rest} more {"notice" if rest == 1 else "notices"}: recall("{DROP}")]')
    elif short != lines:
        short[-1] = f'{short[-1][:-1]} recall("{DROP}")]'
    made = list(dict.fromkeys(("\n".join(lines), "\n".join(short))))
    many = f"{len(value)} notices" if len(value) > 1 else "1 notice"
    forms = shrink_forms((*made, f'[nexus: {many}: recall("{DROP}")]'), view.count)
    return (Section("notices", Phase.EVENT + 20, forms, Layer.EVENT, priority=96, sticky=True, source="session"),)


def _shorten(line: str) -> str:
    return line if len(line) <= SHORT else line[:SHORT] + "..."


CONTRIBUTORS = (Contributor("notices", Layer.EVENT, read, render, prompt=True),)
