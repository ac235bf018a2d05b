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
        {"line": one_line(run["line"]), "run": run["run"], "report": run["report"].strip()} for run in sources.away()
    ]


def render(value: Value, view: View) -> Sections:
    """Render the line with the report below it, in its short form the line alone."""
    return tuple(_section(number, run, view) for number, run in enumerate(value))


def _section(number: int, run: Value, view: View) -> Section:
    line = f"- The person was shown: {run['line']}"
    below = "".join(f"\n  > {part}" for part in run["report"].splitlines() if part.strip())
    full_text = f"{line}\n  Report of {run['run']} (all of it: `nexus runs show {run['run']}`):{below}"
    forms = (full_text, f'{line} [its report: recall("{DROP}")]') if below else (line,)
    order, source = Phase.MEMORY + 70 + number, f"{run['run']}, shown on opening" if run["run"] else "shown on opening"
    name = f"away.{run['run'] or number}"
    return Section(name, order, shrink_forms(forms, view.count), Layer.EVENT, priority=77, source=source)


CONTRIBUTORS = (Contributor("away", Layer.EVENT, read, render),)
