"""`/tools` and `/permissions`: what the model can do, and what of it asks first."""

from __future__ import annotations

from nexus_cli.ui.reports.lines import Value, filled, number, table


def tools_text(value: Value, width: int) -> str:
    """Each tool with what it does to the world, what its schema costs, and whether it asks."""
    tools = value["tools"]
    if not tools:
        return "\n".join(filled("This session has no tools.", width))
    rows = [("name", "tokens", "does", "asks first")]
    rows += [(tool["name"], number(tool["tokens"]), tool["does"], tool["asks"]) for tool in tools]
    total = sum(tool["tokens"] or 0 for tool in tools)
    foot = f"{number(total)} tokens of schemas in every request. Level: {value['level']}; /permissions changes it."
    return "\n".join([*table(rows, width, right=(1,)), "", *filled(foot, width)])


def permissions_text(value: Value, width: int) -> str:
    """The levels, the one in force, and what was allowed for the session."""
    lines = []
    for level in value["levels"]:
        mark = "*" if level["name"] == value["level"] else " "
        lines += filled(level["runs"], width, " " * 8, f"{mark} {level['name']:<6}")
    lines += ["", *filled(f"Set by: {value['bound_by']}. /permissions LEVEL sets it for this session.", width)]
    allowed = value.get("allowed", [])
    if allowed:
        lines += ["", *filled("Allowed for this session:", width)]
        lines += [line for one in allowed for line in filled(one, width, "    ", "  - ")]
    return "\n".join(lines)
