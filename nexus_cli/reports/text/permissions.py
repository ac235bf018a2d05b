"""Text of decisions on calls, and of the permissions that need no question."""

from __future__ import annotations

from nexus_cli.core.limits import name_level
from nexus_cli.reports.text.lines import Value, cut_line, filled, table, when
from nexus_cli.text.cells import one_line

CONFINED = {
    "read": "confined: writes nothing, no network",
    "write": "confined: writes in the project, no network",
    "net": "confined: writes in the project, with network",
    "none": "not confined",
}
"""What a command in a profile may do, for people."""
SAID = {"allow": "allowed", "ask": "asked", "deny": "refused", None: "not decided"}
ANSWERS = {
    "yes": "you said yes",
    "session": "you allowed it for the session",
    "always": "you allowed it always: a rule was added",
    "no": "you said no",
    "none": "no answer came",
}
NO_DECISIONS = "No decisions yet: calls that the level allows are not listed."


def decisions_text(value: Value, width: int) -> str:
    """Return a line for each decision, newest last."""
    rows = value["decisions"]
    if not rows:
        return "\n".join(filled(NO_DECISIONS, width))
    listed = [("id", "decision", "call", "by")]
    for row in rows:
        call = cut_line(f"{row['tool']} {row['subject']}", max(24, width // 3))
        listed.append((row["id"], describe_verdict(row), call, _source(row)))
    before = filled(f"{value['more']:,} more before these.", width) if value["more"] else []
    return "\n".join([*before, *table(listed, width)])


def decision_text(value: Value, width: int) -> str:
    """Show one decision in full: verdict, reason, origin, the parts of the call, and the person's answer."""
    lines = filled(f"{value['id']}  {value['tool']} {value['subject']}", width, "  ")
    why = f": {value['why']}" if value["why"] else ""
    rows = [("", f"{describe_verdict(value)}{why}")]
    if value.get("said"):
        rows.append(("words", value["said"]))
    rows.append(("by", _source(value)))
    if value["profile"]:
        rows.append(("sandbox", CONFINED.get(value["profile"], str(value["profile"]))))
    rows.append(("at", when(value["at"])))
    for name, text in rows:
        lines += filled(f"{name}: {text}" if name else text, width, "    ", "  ") if text else []
    if value["parts"]:
        lines += filled("parts:", width, "  ", "  ")
        lines += [line for part in value["parts"] for line in _part(part, width)]
        lines += [f"    and {more:,} more"] if (more := value.get("more_parts", 0)) else []
    return "\n".join(lines)


def _part(part: Value, width: int) -> list[str]:
    rule = f"{part['rule']}, " if part["rule"] else ""
    command = one_line(" ".join(part["command"])) or "(an assignment)"
    origin = name_origin(str(part["from"]))
    return filled(f"{part['decision']:<5} {command} ({rule}{origin})", width, "          ", "    ")


def describe_verdict(row: Value) -> str:
    """Describe the verdict, and the outcome of a question."""
    said = SAID[row["decision"]]
    if row["decision"] == "ask":
        nobody = "it failed before anybody was asked" if row["ran"] else "nobody could be asked"
        said += f", {ANSWERS.get(row['answer'], nobody)}"
    return said


def _source(row: Value) -> str:
    """Describe the origin of a decision: the rule with file and line, or a level or limit and its setter."""
    if row["rule"]:
        return f"{row['rule']} ({row['from']})"
    layer = row.get("bound_by")
    return name_origin(str(row["from"] or "")) + (f" (from {layer})" if layer else "")


def name_origin(origin: str) -> str:
    """Name the origin of a decision; a level by its word: `level ask`."""
    kind, _, level = origin.partition(" ")
    return f"level {name_level(level)}" if kind == "level" else origin


def permissions_text(value: Value, width: int) -> str:
    """List the levels, the current one, the sandbox, the rules, and the permissions granted for the session."""
    lines = []
    for level in value["levels"]:
        mark = "*" if level["name"] == value["level"] else " "
        lines += filled(level["runs"], width, " " * 8, f"{mark} {name_level(level['name']):<6}")
    here = value["bound_by"] == "/permissions"
    by = "Set for this session" if here else f"Set by: {value['bound_by']}"
    lines += ["", *filled(f"{by}. Shift+Tab or /permissions LEVEL changes it for this session.", width)]
    lines += filled(f"Sandbox: {sandbox_line(value['sandbox'])}.", width) if value.get("sandbox") else []
    if value.get("rules"):
        lines += ["", *filled("Rules:", width)]
        for rule in value["rules"]:
            lines += filled(f"{rule['decision']:<5} {rule['rule']}  ({rule['from']})", width, "    ", "  - ")
    for problem in value.get("problems", []):
        lines += filled(f"Problem: {problem}", width, "    ", "  ")
    if value.get("allowed"):
        lines += ["", *filled("Allowed for this session:", width)]
        lines += [line for one in value["allowed"] for line in filled(one, width, "    ", "  - ")]
    return "\n".join(lines)


def sandbox_line(value: Value) -> str:
    """Describe the sandbox backend, or the reason that there is none, in one line without a full stop."""
    if value["backend"] == "none":
        return f"none, so every command asks below all ({value['why']})"
    return str(value["backend"])
