"""Past sessions of this project that are relevant to the newest message, a line for each."""

from __future__ import annotations

from nexus_cli.core.elide import one_line, plural
from nexus_cli.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.sections.section import DROP, Layer, Phase, Section, Sections

MOST = 2
"""Most sessions with their own section."""
LONGEST = 100
"""Most characters of a title; the whole session is found by its id."""


def read(sources: Sources) -> Value:
    """Return one record per session, best first: `session`, `title`, `date`."""
    episodes = sources.episodes(sources.about())
    return [
        {"session": episode.session, "title": _short(episode.title), "date": episode.at[:10]} for episode in episodes
    ]


def render(value: Value, view: View) -> Sections:
    """Render `- Earlier session 2026-11-03: fix the login test (01J...)`, and the number of other sessions."""
    sections = [
        _section(session["session"], (_line(session),), f"session {session['session']}") for session in value[:MOST]
    ]
    if others_left := value[MOST:]:
        number = plural(len(others_left), "more earlier session that fits", "more earlier sessions that fit")
        pointer = f'- [{number}: recall("{DROP}")]'
        sections.append(_section("more", ("\n".join(map(_line, others_left)), pointer), "earlier sessions"))
    return tuple(sections)


def _section(name: str, forms: tuple[str, ...], source: str) -> Section:
    order, least = Phase.MEMORY + 60, len(forms) - 1
    return Section(f"episodic.{name}", order, forms, Layer.EVENT, priority=40, source=source, least=least)


def _line(session: Value) -> str:
    return f"- Earlier session {session['date']}: {session['title']} ({session['session']})"


def _short(title: str) -> str:
    line = " ".join(one_line(title).split())
    return line if len(line) <= LONGEST else line[:LONGEST].rstrip() + "..."


CONTRIBUTORS = (Contributor("episodic", Layer.EVENT, read, render),)
