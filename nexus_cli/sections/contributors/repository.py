"""The state of the git repository: branch, uncommitted files, newest commits.

The model would ask for it first. Sent with the first message, and again when it differs. If something other than a
commit moved HEAD in this session, the line says so: the state may be one that the model was told before its own
commands changed it, and would not be sent again. Names of files and subjects
of commits are foreign text, so they are quoted and bounded.
"""

from __future__ import annotations

from nexus_cli.core.elide import name_first, plural
from nexus_cli.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.sections.section import Layer, Phase, Section, Sections

MAX_NAMED = 5
"""Most files that are named."""
LONGEST = 60
"""Most characters of a name or a subject."""


def read(sources: Sources) -> Value:
    """Return the `line`; nothing without a repository."""
    repository = sources.repository()
    if not repository:
        return {}
    dirty = name_first([*map(_quote, repository["dirty"])], MAX_NAMED)
    commits = ", ".join(map(_quote, repository["subjects"][:MAX_NAMED]))
    uncommitted = f"{plural(len(repository['dirty']), 'file')} ({dirty})" if dirty else "nothing"
    branch, work = _quote(repository["branch"]), repository.get("work")
    state = f"rebasing {branch}" if work == "rebase" else f"branch {branch}"
    state += f" ({work} in progress)" if work and work != "rebase" else ""
    line = f"Git: {state}; uncommitted: {uncommitted}; newest commits: {commits or 'none'}"
    moved_at, how = repository.get("moved", (0, ""))
    return {"line": f"{line}; HEAD moved: {_quote(how)}" if moved_at > sources.started.timestamp() else line}


def render(value: Value, view: View) -> Sections:
    """Render `Git: branch "main"; uncommitted: 1 file ("a.py"); newest commits: "Fix a", "Add b"`."""
    if not value:
        return ()
    order = Phase.MEMORY + 45
    return (Section("repository", order, (value["line"],), Layer.EVENT, priority=82, source="the git repository"),)


def _quote(text: str) -> str:
    line = "".join(filter(str.isprintable, text)).replace('"', "'")
    return f'"{line}"' if len(line) <= LONGEST else f'"{line[:LONGEST]}..."'


CONTRIBUTORS = (Contributor("repository", Layer.EVENT, read, render),)
