"""The rows about rules, arguments of guides and instructions; see `rows.py`."""

from __future__ import annotations

import json
from collections.abc import Mapping

from parity.agent_rows import SERVERS
from parity.rows import (
    AGENT,
    DELEGATE,
    SKILL,
    Played,
    Row,
    Step,
    bash,
    command_row,
    files,
    guide,
    has_role,
    marked,
    settings,
)

TOUCH: tuple[Step, ...] = (bash("touch one"), bash("cd . && touch two"), bash("FOO=1 touch three"), bash("mkdir four"))
GRANTS = "---\nallowed-tools: {}\n---\nBEGIN Do it. END\n"


def rules(kind: str, *texts: str) -> dict[str, str]:
    return {".claude/settings.json": settings(permissions={kind: list(texts)}, enableAllProjectMcpServers=True)}


def granted(name: str, tools: str, *calls: Step, tree: Mapping[str, str] | None = None, prompt: str = "/g") -> Row:
    """Return a row in which a command permits calls where everything else would ask."""
    guides = tree or {".claude/commands/g.md": GRANTS.format(tools)}
    look = files("one", "two", "written")
    return Row(name, look, guides, calls, prompt=prompt, level="ask", mode="default")


STARRED: tuple[Step, ...] = tuple(
    bash(command)
    for command in (
        "touch one main",
        "true && touch two main",
        "env X=1 touch one main",
        "touch -a -c one main > two; true",
        "mkdir -p deep",
        "touch deep/main",
        "touch main last",
        "touch last maine",
    )
)
SKILLS = {".claude/skills/ship/SKILL.md": SKILL.replace("$ARGUMENTS ", "")}


def agent_row(rule: str) -> Row:
    tree = rules("deny", rule) | {".claude/agents/reviewer.md": AGENT.format(more="color: blue")}
    return Row(f"an agent is denied by {rule}", has_role, tree, (DELEGATE,))


def skill_row(rule: str) -> Row:
    return Row(f"a skill is denied by {rule}", marked, SKILLS | rules("deny", rule), (("Skill", {"skill": "ship"}),))


def offered(played: Played) -> dict[str, bool]:
    """Return which tools, agents and skills the first request offers."""
    names = {str(one["name"]).casefold() for one in json.loads(played.requests[0])["tools"]}
    guides = {"Reviews every change.", "Ships it."}
    tools = {name: name in names for name in ("bash", "agent", "skill")}
    return tools | {text: text in played.requests[0] for text in guides}


def offered_row(rule: str, chosen: str = "") -> Row:
    """Return a row about what the model is offered beside a deny rule."""
    tree = SKILLS | rules("deny", rule) | {".claude/agents/reviewer.md": AGENT.format(more="color: blue")}
    return Row(f"what is offered beside a rule that denies {rule}", offered, tree, chosen=chosen)


WRITE = ("Write", {"file_path": "TREE/written", "content": "x\n"})
PERMITTING = "---\nname: ship\ndescription: Ships.\nallowed-tools: Bash(touch:*)\n---\nGo.\n"
SHIP = {".claude/skills/ship/SKILL.md": PERMITTING}
WEB = {".claude/commands/web/g.md": "BEGIN Of web. END\n"}
BY_OPTION = "in a script `-f` attaches a file: its words may come from anywhere"
SENT_BY_CODEX = "AGENTS.md is read for itself, whole, as codex reads it"
WHOLE_NAME = "the name of a guide has its folder, of which another one may have the same guide"
COMMENTS = """BEGIN {0} END
<!-- BEGIN {0} hidden END --> BEGIN {0} behind END
<!--
BEGIN {0} lines END

BEGIN {0} more lines END
-->
```
<!-- BEGIN {0} code END -->
```
- text
  <!-- BEGIN {0} item END -->
"""
INDENTED = """ <!-- BEGIN top END -->

Text.

  <!-- BEGIN apart END --> BEGIN behind END
# Title
   <!-- BEGIN below title END -->

Text
 <!-- BEGIN paragraph END -->

    <!-- BEGIN code END -->

- item

  <!-- BEGIN item END -->

Text.

  <!-- BEGIN lines END

  BEGIN more lines END
  -->
"""
FENCED = """---
description: Runs.
allowed-tools: Bash(echo:*)
---
BEGIN a
```!

```
prose
```!
echo one
echo `echo two`
```
b END
"""
RULE_ROWS = (
    Row("a denied command", files("one", "two", "three"), rules("deny", "Bash(touch:*)"), TOUCH, level="all"),
    Row(
        "a denied command in its exact words", files("one", "two"), rules("deny", "Bash(touch one)"), TOUCH, level="all"
    ),
    Row(
        "a denied beginning of a word",
        files("one", "two", "three"),
        rules("deny", "Bash(touch t*)"),
        TOUCH,
        level="all",
    ),
    Row(
        "a denied command with a star inside",
        files("one", "two", "main", "deep/main", "last", "maine"),
        rules("deny", "Bash(touch * main)"),
        STARRED,
        level="all",
    ),
    Row(
        "a denied command that begins with a star",
        files("one", "two", "three"),
        rules("deny", "Bash(* --no-create)"),
        (bash("touch one --no-create; touch two"), bash("touch --no-create one && touch three"), bash("touch two")),
        level="all",
    ),
    Row(
        "a denied command with a star within a word",
        files("one", "two", "three"),
        rules("deny", "Bash(touch*-m *)"),
        (bash("touch -c -m one && touch one"), bash("touch two"), bash("touch three -m two")),
        level="all",
    ),
    Row(
        "a denied command with a star inside, in a shell of its own",
        files("one", "two"),
        rules("deny", "Bash(touch * two)"),
        (bash("sh -c 'touch one two'"),),
        level="all",
        chosen="nexus looks into `sh -c`",
    ),
    Row(
        "a command with a star inside has to ask",
        files("one", "two"),
        rules("ask", "Bash(touch * two)"),
        (bash("touch one two"),),
    ),
    Row("a command that has to ask", files("one", "two", "three"), rules("ask", "Bash(touch *)"), TOUCH),
    Row("all commands are denied", files("one", "two"), rules("deny", "Bash"), TOUCH, level="all"),
    Row(
        "a tool of a server is denied",
        files("noted.txt"),
        SERVERS | rules("deny", "mcp__memo__note"),
        (("mcp__memo__note", {"text": "x"}),),
        level="all",
    ),
    Row(
        "all tools of a server are denied",
        files("noted.txt"),
        SERVERS | rules("deny", "mcp__memo"),
        (("mcp__memo__note", {"text": "x"}),),
        level="all",
    ),
    Row(
        "agents are denied",
        has_role,
        rules("deny", "Agent") | {".claude/agents/reviewer.md": AGENT.format(more="color: blue")},
        (DELEGATE,),
    ),
    *map(agent_row, ("Task(reviewer)", "Agent(other)", "Agent(reviewer:*)")),
    *map(skill_row, ("Skill(ship *)", "Skill(ship:*)", "Skill(shi:*)", "Skill(shi)", "Skill(shi*)")),
    *map(offered_row, ("Agent(reviewer)", "Task(reviewer)", "Agent(rev*)", "Agent(other)", "Agent", "Skill", "Bash")),
    offered_row("Skill(ship)", "a skill that the model may not read is not listed; Claude Code lists and refuses it"),
    Row("a denied skill is called by the person", marked, SKILLS | rules("deny", "Skill(ship)"), prompt="/ship"),
    Row(
        "a skill that has to ask",
        marked,
        SKILLS | rules("ask", "Skill(ship)"),
        (("Skill", {"skill": "ship"}),),
        chosen="Claude Code asks for `Skill` alone, and not by a name",
    ),
    Row(
        "a denied path of the whole system",
        files("copied"),
        rules("deny", "Read(//etc/hostname)"),
        (bash("cat /etc/hostname > copied"),),
        level="all",
    ),
    Row(
        "a path that must not be read is not written",
        files("secret.txt", "kept.txt", "open.txt"),
        rules("deny", "Read(./secret.txt)", "Read(./kept.txt)") | {"kept.txt": "one\n"},
        (
            ("Write", {"file_path": "TREE/secret.txt", "content": "x\n"}),
            ("Write", {"file_path": "TREE/kept.txt", "content": "x\n"}),
            ("Edit", {"file_path": "TREE/kept.txt", "old_string": "one", "new_string": "two"}),
            ("Write", {"file_path": "TREE/open.txt", "content": "x\n"}),
        ),
        level="all",
    ),
    granted("a command permits what it names", "Bash(touch:*)", bash("touch one"), bash("mkdir two")),
    granted("a command permits exact words", "Bash(touch one)", bash("touch one"), bash("touch two")),
    granted("a command permits a tool", "Write, Read", WRITE, bash("touch one")),
    granted("a command permits a list", "\n  - Bash(touch:*)\n  - Write", WRITE, bash("touch one")),
    granted("a command without a list permits nothing", "Read", WRITE, bash("touch one")),
    granted("a skill permits what it names", "", bash("touch one"), tree=SHIP, prompt="/ship"),
    granted(
        "a skill that the model reads permits nothing", "", ("Skill", {"skill": "ship"}), bash("touch one"), tree=SHIP
    ),
    command_row("arguments by their place", "BEGIN $ARGUMENTS[0] and $ARGUMENTS[1] END\n", "/g 12 'high prio'"),
    Row(
        "arguments of a guide that names none",
        lambda played: "12 high" in played.requests[-1],
        {".claude/commands/g.md": "Do it.\n"},
        prompt="/g 12 high",
    ),
    Row(
        "a guide runs a fenced block",
        guide,
        {".claude/commands/g.md": FENCED},
        prompt="/g",
    ),
    Row(
        "a guide brings the output of a command",
        guide,
        {".claude/commands/g.md": "---\nallowed-tools: Bash(cat:*)\n---\nBEGIN !`cat a.txt` END\n", "a.txt": "words\n"},
        prompt="/g",
    ),
    Row(
        "a guide brings a file",
        lambda played: "words of it" in played.requests[-1],
        {".claude/commands/g.md": "Look at @a.txt now.\n", "a.txt": "words of it\n"},
        prompt="/g",
    ),
    Row(
        "words bring a file",
        lambda played: "words of it" in played.requests[-1],
        {"a.txt": "words of it\n"},
        prompt="look at @a.txt now",
        chosen=BY_OPTION,
    ),
    Row("a guide in a folder", guide, {".claude/commands/web/g.md": "BEGIN Of web. END\n"}, prompt="/web:g"),
    Row(
        "a guide in a folder, by its name alone",
        guide,
        WEB,
        prompt="/g",
        chosen=WHOLE_NAME,
    ),
    Row(
        "a skill that the model may not read is not listed",
        lambda played: "Ships it." in played.requests[0],
        {".claude/skills/ship/SKILL.md": "---\ndescription: Ships it.\ndisable-model-invocation: true\n---\nGo.\n"},
    ),
    Row(
        "imports of imports",
        marked,
        {
            "CLAUDE.md": "@a.md\n",
            "a.md": "BEGIN a END\n@sub/b.md\n",
            "sub/b.md": "BEGIN b END\n@c.md\n",
            "sub/c.md": "BEGIN c END\n",
        },
    ),
    Row(
        "imports of imports end after four files",
        marked,
        {
            "CLAUDE.md": "@1.md\n",
            **{f"{number}.md": f"BEGIN {number} END\n@{number + 1}.md\n" for number in range(1, 8)},
        },
    ),
    Row(
        "what looks like an import in code is none",
        marked,
        {"CLAUDE.md": "Use `@a.md` and\n```\n@a.md\n```\n", "a.md": "BEGIN a END\n"},
    ),
    Row(
        "an import of the person's own file",
        marked,
        {"CLAUDE.md": "@~/mine.md\n"},
        home={"mine.md": "BEGIN mine END\n"},
    ),
    Row(
        "the person's own instructions",
        marked,
        {"a.txt": "x\n"},
        home={".claude/CLAUDE.md": "BEGIN mine END\n", ".claude/settings.json": "{}"},
    ),
    Row("comments of instructions", marked, {"CLAUDE.md": "BEGIN a <!-- hidden --> b END\n"}),
    Row(
        "comments that begin a line of instructions",
        marked,
        {
            "CLAUDE.md": f"@more.md\n@below.md\n{COMMENTS.format('top')}",
            "more.md": COMMENTS.format("imported"),
            "CLAUDE.local.md": COMMENTS.format("local"),
            ".claude/rules/a.md": COMMENTS.format("ruled"),
            "below.md": "<!-- not closed BEGIN open END\n",
            "sub/CLAUDE.md": COMMENTS.format("below"),
            "sub/a.txt": "x\n",
        },
        (("Read", {"file_path": "TREE/sub/a.txt"}),),
    ),
    Row(
        "comments of instructions that are indented",
        marked,
        {"CLAUDE.md": INDENTED, ".claude/rules/a.md": INDENTED.replace("BEGIN ", "BEGIN rule ")},
    ),
    Row(
        "comments of an AGENTS.md that CLAUDE.md imports",
        marked,
        {"AGENTS.md": COMMENTS.format("of all"), "CLAUDE.md": "@AGENTS.md\n"},
        chosen=SENT_BY_CODEX,
    ),
    Row(
        "codex: comments of AGENTS.md",
        lambda played: sorted(set(played.between("BEGIN", "END"))),
        {"AGENTS.md": COMMENTS.format("of all")},
        peer="codex",
    ),
    Row(
        "a skill of a folder below is listed with its first file",
        lambda played: ["Ships it." in one for one in played.requests],
        {"sub/.claude/skills/ship/SKILL.md": SKILL, "sub/in/a.txt": "x\n", "b.txt": "x\n"},
        (("Read", {"file_path": "TREE/b.txt"}), ("Read", {"file_path": "TREE/sub/in/a.txt"})),
        trusts="sub",
    ),
    Row(
        "rules in folders, and by several patterns",
        marked,
        {
            ".claude/rules/front/a.md": "BEGIN always END\n",
            ".claude/rules/b.md": '---\npaths:\n  - "**/*.{ts,tsx}"\n---\nBEGIN typed END\n',
            ".claude/rules/c.md": '---\npaths: "*.md, lib/**"\n---\nBEGIN others END\n',
            "src/a.tsx": "one\n",
        },
        (("Read", {"file_path": "TREE/src/a.tsx"}),),
    ),
    Row(
        "codex: a file that overrides AGENTS.md",
        lambda played: sorted(set(played.between("BEGIN", "END"))),
        {"AGENTS.md": "BEGIN usual END\n", "AGENTS.override.md": "BEGIN mine END\n"},
        peer="codex",
    ),
    Row(
        "codex: rules that forbid a command",
        files("one", "two", "three", "four", "five"),
        {
            ".codex/rules/a.rules": 'prefix_rule(pattern=["touch", ["one", "two"]], decision="forbidden")\n',
            ".codex/rules/b.rules": 'prefix_rule(\n  pattern=["touch", "three"],\n  decision="prompt",\n)\n',
            ".codex/rules/in/c.rules": 'prefix_rule(pattern=["touch", "four"], decision="forbidden")\n',
        },
        tuple(("exec_command", {"cmd": f"touch {name}"}) for name in ("one", "two -c", "three", "four", "five")),
        peer="codex",
    ),
    Row(
        "codex: a skill is listed",
        lambda played: "Ships it." in played.requests[0],
        {".agents/skills/ship/SKILL.md": "---\nname: ship\ndescription: Ships it.\n---\nGo.\n"},
        peer="codex",
    ),
)
