"""`nexus skill list`: each skill with its one line, and what keeps one from being used."""

from __future__ import annotations

from nexus_cli.ui.reports.lines import Value, filled, plural, table

NONE = "There are no skills. A skill is a folder with a SKILL.md, in the skills folder beside config.toml."


def skills_text(value: Value, width: int) -> str:
    """The skills by name."""
    rows = [("name", "from", "what")]
    for skill in value["skills"]:
        said = skill["description"]
        if skill["problem"]:
            said = f"[cannot be used: {skill['problem']}]"
        elif skill["shadowed"]:
            said = f"[shadowed by the one before] {said}"
        rows.append((skill["name"], skill["origin"], said))
    lines = table(rows, width) if len(rows) > 1 else filled(NONE, width)
    if value["untrusted"]:
        more = plural(value["untrusted"], "more skill")
        lines += ["", *filled(f"This project has {more}; `nexus trust` lets them count.", width)]
    elif len(rows) > 1:
        lines += ["", *filled("`nexus skill use NAME` prints the guide.", width)]
    return "\n".join(lines)


