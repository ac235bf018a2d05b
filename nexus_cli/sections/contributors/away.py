"""The project's unattended runs since the person's last visit, as the person was told on opening the session.

A section per line of that report, so that "what did the nightly run change?" has an answer in the first message.
"""

from __future__ import annotations

from nexus_cli.core.elide import one_line
from nexus_cli.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.sections.identity_files import shrink_forms
from nexus_cli.sections.section import DROP, Layer, Phase, Section, Sections


def read(sources: Sources) -> Value:
    """Return a record per line: `line`, `run` (its last one) and `report`, the beginning of that run's answer."""
    return [
        {"line": one_line(one["line"]), "run": one["run"], "report": one["report"].strip()} for one in sources.away()
    ]


def render(value: Value, view: View) -> Sections:
    """Render the line with the report below it, in its short form the line alone."""
    return tuple(_section(number, one, view) for number, one in enumerate(value))


def _section(number: int, one: Value, view: View) -> Section:
    line = f"- The person was shown: {one['line']}"
    below = "".join(f"\n  > {part}" for part in one["report"].splitlines() if part.strip())
    whole = f"{line}\n  Report of {one['run']} (all of it: `nexus runs show {one['run']}`):{below}"
    forms = (whole, f'{line} [its report: recall("{DROP}")]') if below else (line,)
    order, source = Phase.MEMORY + 70 + number, f"{one['run']}, shown on opening" if one["run"] else "shown on opening"
    name = f"away.{one['run'] or number}"
    return Section(name, order, shrink_forms(forms, view.count), Layer.EVENT, priority=77, source=source)


CONTRIBUTORS = (Contributor("away", Layer.EVENT, read, render),)
