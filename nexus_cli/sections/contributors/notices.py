"""The lines that the session has queued for the model: a limit that was lowered, a file that changed, a missing tool.

Each batch is sent once; the session empties the queue after sending. The background commands that run are one more
line, which is sent again after a compaction, and so is the text that hooks added at the session's start and to the
newest message.
"""

from __future__ import annotations

from operator import methodcaller

from nexus_cli.core.elide import clip_text, one_line, plural
from nexus_cli.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.sections.identity_files import shrink_forms
from nexus_cli.sections.section import DROP, Layer, Phase, Section, Sections

FEW = 3
MAX_HOOK_TEXT = 1000
"""Characters of a hook's text in its short form."""
HOOK_SHARE = 20
"""A text of hooks above one part in so many of the window is shortened."""
SHORT = 203
"""Characters of one notice in the short form."""


def read(sources: Sources) -> Value:
    """Return the queued lines in order."""
    return [line for line in map(one_line, sources.notices()) if line.strip()]


def render(value: Value, view: View) -> Sections:
    """Return one section with a line for each notice. Its short form has the first few, shortened, and the number of
    the others; the last form only their number."""
    if not value:
        return ()
    lines = [f"[nexus: {line}]" for line in value]
    short = [f"[nexus: {clip_text(line, SHORT, '...')}]" for line in value[:FEW]]
    omitted = len(value) - FEW
    if omitted > 0:
        short.append(f'[nexus: and {plural(omitted, "more notice")}: recall("{DROP}")]')
    elif short != lines:
        short[-1] = f'{short[-1][:-1]} recall("{DROP}")]'
    texts = list(dict.fromkeys(("\n".join(lines), "\n".join(short))))
    forms = shrink_forms((*texts, f'[nexus: {plural(len(value), "notice")}: recall("{DROP}")]'), view.count)
    return (Section("notices", Phase.EVENT + 20, forms, Layer.EVENT, priority=96, sticky=True, source="session"),)


def render_jobs(value: Value, view: View) -> Sections:
    """Render `[nexus: running in the background: j1 (npm run dev)]`."""
    job_list = ", ".join(f"{job} ({command})" for job, command in value.items())
    forms = (f"[nexus: running in the background: {job_list}]",)
    return (Section("jobs", Phase.EVENT + 19, forms, Layer.EVENT, priority=90, sticky=True, source="the session"),)


def render_hooks(value: Value, view: View) -> Sections:
    """Render the text of each event's hooks; a small window gets its beginning and the call that reads the rest."""
    sections = []
    for event, notice in sorted(value.items()):
        text = notice["text"]
        if not text:
            continue
        short = [f'{text[:MAX_HOOK_TEXT]}... recall("{DROP}")', f'[text of {event} hooks: recall("{DROP}")]']
        forms = (text,) if view.count(text) * HOOK_SHARE <= view.window else shrink_forms((text, *short), view.count)
        name = f"hooks.{event}"
        sections.append(
            Section(name, Phase.EVENT + 18, forms, Layer.EVENT, priority=92, sticky=True, source=notice["source"])
        )
    return tuple(sections)


CONTRIBUTORS = (
    Contributor("hooks", Layer.EVENT, methodcaller("hooks"), render_hooks),
    Contributor("notices", Layer.EVENT, read, render, prompt=True),
    Contributor("jobs", Layer.EVENT, methodcaller("jobs"), render_jobs),
)
