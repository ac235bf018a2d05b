"""The rows about plugins of a marketplace, as both programs install them; see `rows.py`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from parity.rows import AGENT, SKILL, Look, Row, Step, bash, decide, files, guide, has_role, hook, marked, settings
from parity.server_rows import NOTE, SHOWN, names, server

CALLED: Step = ("Agent", {"description": "review", "prompt": "Review it.", "subagent_type": "kit:reviewer"})
OWN = "${CLAUDE_PLUGIN_ROOT}"


def plugin(
    name: str,
    look: Look,
    parts: Mapping[str, str],
    *calls: Step,
    entry: Mapping[str, Any] | None = None,
    manifest: Mapping[str, Any] | None = None,
    tree: Mapping[str, str] = MappingProxyType({"a.txt": "x\n"}),
    **more: Any,
) -> Row:
    """Return a row with the plugin `kit` of the marketplace `shelf`; `entry` describes it in place of a plugin.json,
    or beside its `manifest`."""
    listed = {"name": "kit", "source": "./kit", "description": "A kit.", **(entry or {})}
    market = {"name": "shelf", "owner": {"name": "Nobody"}, "plugins": [listed, {"name": "other", "source": "./other"}]}
    own = (
        {}
        if entry and manifest is None
        else {".claude-plugin/plugin.json": json.dumps({"name": "kit", "version": "1.0.0", **(manifest or {})})}
    )
    home = {"market/.claude-plugin/marketplace.json": json.dumps(market)}
    home |= {f"market/kit/{path}": words for path, words in {**own, **parts}.items()}
    return Row(f"a plugin's {name}", look, tree, calls, home=home, plugin="kit@shelf", **more)


GUIDE = "---\ndescription: Goes on.\n---\nBEGIN one=$0 all=$ARGUMENTS END\n"
COMMAND = {"commands/g.md": GUIDE}
SHIP = {"skills/ship/SKILL.md": SKILL}
REVIEWER = AGENT.format(more="color: blue")
STARTS = settings(hooks=hook("echo BEGIN Started. END", "SessionStart"))
HOOKS = {
    "hooks/hooks.json": settings(
        hooks=hook(f"{OWN}/start.sh", "SessionStart")
        | hook(decide(permissionDecision="deny", permissionDecisionReason="BEGIN Not here. END"), "PreToolUse")
    ),
    "start.sh": "#!/bin/sh\necho BEGIN Started. END\n",
}
MEMO = {"mcpServers": {"memo": {"command": "python3", "args": [f"{OWN}/server.py"]}}}
SERVED = {".mcp.json": json.dumps(MEMO), **server(NOTE)}
ELSEWHERE = {
    "own/ship/SKILL.md": SKILL,
    "own/g.md": GUIDE,
    "own/reviewer.md": REVIEWER,
    "own/hooks.json": STARTS,
}
PLACES = {
    "skills": "./own",
    "commands": ["./own/g.md"],
    "agents": ["./own/reviewer.md"],
    "hooks": "./own/hooks.json",
}
LISTED = {"strict": False, "skills": ["./own/ship"], "commands": ["./own/g.md"]}
OURS = "plugin_kit_memo"
BY_PERSON = "a command is what a person calls; a skill is what the model reads by itself"
AS_WRITTEN = "the model reads a skill as it is written: its call has no arguments"
NOT_IN_PATH = "`bin` is not in the path of commands: `nexus plugin add` names it"


def found(*texts: str) -> Look:
    """Return a look at which of these texts the first request has."""
    return lambda played: [one in played.requests[0] for one in texts]


def denied(rule: str) -> dict[str, str]:
    return {".claude/settings.json": settings(permissions={"deny": [rule]})}


def denied_row(rule: str) -> Row:
    parts = {"skills/ship/SKILL.md": SKILL.replace("$ARGUMENTS ", "")}
    return plugin(f"skill is denied by {rule}", marked, parts, ("Skill", {"skill": "kit:ship"}), tree=denied(rule))


PLUGIN_ROWS = (
    plugin("skill is listed", found("Ships it."), SHIP),
    plugin("skill is called by the person", guide, SHIP, prompt="/kit:ship 1.2 now"),
    plugin(
        "skill is read by the model",
        marked,
        {"skills/ship/SKILL.md": SKILL.replace("$ARGUMENTS ", "")},
        ("Skill", {"skill": "kit:ship"}),
    ),
    *map(denied_row, ("Skill(kit:ship)", "Skill(ship)", "Skill(kit:*)", "Skill(other:*)")),
    plugin("agent is denied", has_role, {"agents/reviewer.md": REVIEWER}, CALLED, tree=denied("Agent(kit:reviewer)")),
    plugin(
        "agent that is denied is not listed",
        found("Reviews every change."),
        {"agents/reviewer.md": REVIEWER},
        tree=denied("Agent(kit:reviewer)"),
    ),
    plugin(
        "agent is denied by its name alone",
        has_role,
        {"agents/reviewer.md": REVIEWER},
        CALLED,
        tree=denied("Agent(reviewer)"),
        chosen="a rule for a name also holds for the agent of a plugin, which has this name here",
    ),
    plugin(
        "skill with arguments is read by the model", marked, SHIP, ("Skill", {"skill": "kit:ship"}), chosen=AS_WRITTEN
    ),
    plugin("command", guide, COMMAND, prompt="/kit:g 12 high"),
    plugin("command is listed for the model", found("Goes on."), COMMAND, chosen=BY_PERSON),
    plugin(
        "command brings a file of its own",
        guide,
        {"commands/g.md": f"---\nallowed-tools: Bash(cat:*)\n---\nBEGIN !`cat {OWN}/b.txt` END\n", "b.txt": "words\n"},
        prompt="/kit:g",
    ),
    plugin(
        "agent",
        lambda played: (has_role(played), played.files("made")),
        {"agents/reviewer.md": REVIEWER},
        CALLED,
        worker=(bash("touch made"),),
    ),
    plugin("agent is listed", found("Reviews every change."), {"agents/reviewer.md": REVIEWER}),
    plugin(
        "hooks, one of them a script of its own",
        lambda played: (marked(played), played.files("made")),
        HOOKS,
        bash("touch made"),
    ),
    plugin("server", names, SERVED, tree=SHOWN, level="all", listed=OURS),
    plugin("server in its manifest", names, server(NOTE), manifest=MEMO, tree=SHOWN, level="all", listed=OURS),
    plugin(
        "server is called",
        files("called.txt"),
        SERVED,
        ("mcp__plugin_kit_memo__note", {"text": "x"}),
        level="all",
    ),
    plugin(
        "server is denied by its name in rules",
        files("called.txt"),
        SERVED,
        ("mcp__plugin_kit_memo__note", {"text": "x"}),
        level="all",
        tree={".claude/settings.json": settings(permissions={"deny": ["mcp__plugin_kit_memo"]})},
    ),
    plugin(
        "agent calls the tool of its server",
        files("called.txt"),
        SERVED | {"agents/reviewer.md": AGENT.format(more="tools: mcp__plugin_kit_memo__note")},
        CALLED,
        worker=(("mcp__plugin_kit_memo__note", {"text": "x"}),),
        level="all",
    ),
    plugin(
        "parts in other places",
        found("Ships it.", "Reviews every change.", "BEGIN Started. END"),
        ELSEWHERE,
        manifest=PLACES,
    ),
    plugin("command in another place", guide, ELSEWHERE, manifest=PLACES, prompt="/kit:g 12 high"),
    plugin("skill that the marketplace alone names", found("Ships it."), ELSEWHERE, entry=LISTED),
    plugin("command that the marketplace alone names", guide, ELSEWHERE, entry=LISTED, prompt="/kit:g 12 high"),
    plugin(
        "hook that the marketplace names beside its manifest",
        marked,
        SHIP,
        entry=json.loads(STARTS),
        manifest={},
    ),
    plugin(
        "programs are in the path of commands",
        files("made"),
        SHIP | {"bin/kit-tool": "#!/bin/sh\necho ran\n"},
        bash("kit-tool > made"),
        chosen=NOT_IN_PATH,
    ),
)
