"""The rows about settings of a project and of a person, guides, and a start below the project's root; see `rows.py`."""

from __future__ import annotations

import json
import re
from typing import Any

from parity.agent_rows import SERVERS
from parity.rows import (
    AGENT,
    DELEGATE,
    SKILL,
    Played,
    Row,
    Step,
    bash,
    claude_hooks,
    files,
    guide,
    has_role,
    hook,
    marked,
    settings,
)

SHARED, LOCAL = ".claude/settings.json", ".claude/settings.local.json"
TOUCH: tuple[Step, ...] = (bash("touch one"), bash("touch two"), bash("touch three"))
TOUCHED = files("one", "two", "three")
LOCK = """#!/usr/bin/env python3
import json, sys
if json.load(sys.stdin)["tool_input"]["file_path"].endswith(".lock"):
    print("locked", file=sys.stderr)
    sys.exit(2)
"""
STYLE = {
    SHARED: settings(outputStyle="terse"),
    ".claude/output-styles/terse.md": "---\nname: terse\ndescription: Terse.\n---\nBEGIN Be terse. END\n",
}
ABOVE = {
    "CLAUDE.md": "BEGIN top END\n",
    "CLAUDE.local.md": "BEGIN local END\n",
    ".claude/CLAUDE.md": "BEGIN inner END\n",
    ".claude/rules/a.md": "BEGIN rule END\n",
    "sub/CLAUDE.md": "BEGIN sub END\n",
    "sub/.claude/rules/b.md": "BEGIN rule of sub END\n",
    "sub/a.txt": "x\n",
}
TIGHTENS = "a project's settings only tighten"
AT_A_WORD = "an allow rule ends at a word: the import names the rule"
BY_FOLDER = "a session gets a further folder by `--add-dir`: the import names it"
BY_TRUST = "`nexus trust` approves each server"
BY_STYLE = "a style is set by the person, `ui.style`: trust and import name it"
BY_OPTION = "in a script `-f` attaches a file: its words may come from anywhere"
STRICTER = "what a folder above denies holds in those below"
IN_PLACE = "a command that does not run is named in its place"
AS_TEXT = "a name that the person cannot call is sent as text, with a notice"
AS_WRITTEN = "the model reads a skill as it is written: nothing in it runs"
BY_PERSON = "a command is what a person calls; a skill is what the model reads by itself"
MORE_READ = "AGENTS.md is read up to the limit of nexus"
BY_IMPORT = "an AGENTS.md imports it (`@GUIDE.md`): the import of settings says so"
BY_MCP_JSON = "a project's servers are in .mcp.json: `nexus trust` says so"


def permissions(**keys: Any) -> str:
    return settings(permissions=keys)


def denied(name: str, rule: str, look: Any, *calls: Step, tree: dict[str, str] | None = None, chosen: str = "") -> Row:
    """Return a row with one deny rule of the project, where nothing asks."""
    files_of = {SHARED: permissions(deny=[rule]), **(tree or {})}
    return Row(f"a denied {name}", look, files_of, calls, level="all", chosen=chosen)


def person(name: str, text: str, look: Any, *calls: Step, **more: Any) -> Row:
    """Return a row with settings of the person, where everything else asks."""
    home = {SHARED: text, **more.pop("home", {})}
    return Row(name, look, {"a.txt": "x\n"}, calls, home=home, **{"mode": "default", "level": "ask", **more})


def skill(name: str, body: str, look: Any, *calls: Step, front: str = "", **more: Any) -> Row:
    tree = {".claude/skills/ship/SKILL.md": f"---\nname: ship\ndescription: Ships it.\n{front}---\n{body}\n"}
    return Row(name, look, tree, calls, **{"prompt": "/ship", **more})


def below(name: str, look: Any, tree: dict[str, str], *calls: Step, **more: Any) -> Row:
    """Return a row that begins in a folder below the root."""
    return Row(f"a start below: {name}", look, ABOVE | tree, calls, start="sub", **more)


def codex(name: str, look: Any, config: str, tree: dict[str, str], *calls: Step, **more: Any) -> Row:
    """Return a row with settings of codex of the person."""
    home = {".codex/config.toml": config, **more.pop("home", {})}
    return Row(f"codex: {name}", look, {"a.txt": "x\n", **tree}, calls, peer="codex", home=home, **more)


def said(played: Played) -> list[str]:
    """Return the marked texts of the first request, each once."""
    return sorted(set(re.findall("BEGIN (.*?) END", played.requests[0])))


def family(played: Played) -> list[str]:
    return re.findall("haiku|sonnet|opus", json.loads(played.requests[0])["model"])


def names_file(played: Played) -> bool:
    return "words of it" in played.requests[-1]


def listed(*texts: str) -> Any:
    return lambda played: [text in played.requests[0] for text in texts]


def write(name: str) -> Step:
    return "Write", {"file_path": f"TREE/{name}", "content": "x\n"}


def touch(name: str) -> Step:
    return "exec_command", {"cmd": f"touch {name}"}


SETTING_ROWS = (
    Row(
        "rules of the local settings add to those of the project",
        TOUCHED,
        {SHARED: permissions(deny=["Bash(touch one)"]), LOCAL: permissions(ask=["Bash(touch two)"])},
        TOUCH,
    ),
    Row(
        "a mode of the project",
        files("w"),
        {SHARED: permissions(defaultMode="acceptEdits")},
        (write("w"),),
        mode="",
        level="",
        chosen=TIGHTENS,
    ),
    Row(
        "a server that the settings disable",
        files("noted.txt"),
        SERVERS | {SHARED: settings(enableAllProjectMcpServers=True, disabledMcpjsonServers=["memo"])},
        (("mcp__memo__note", {"text": "x"}),),
        level="all",
        chosen=BY_TRUST,
    ),
    Row(
        "a server whose entry has a variable with a default",
        files("noted.txt"),
        SERVERS
        | {".mcp.json": json.dumps({"mcpServers": {"memo": {"command": "${PY:-python3}", "args": ["server.py"]}}})},
        (("mcp__memo__note", {"text": "x"}),),
        level="all",
    ),
    Row("a style of the project", said, STYLE, chosen=BY_STYLE),
    Row(
        "a hook runs a script of the project",
        files("a.lock", "b.txt"),
        claude_hooks(**hook('"$CLAUDE_PROJECT_DIR"/.claude/hooks/lock.py', "PreToolUse", matcher="Edit|Write"))
        | {".claude/hooks/lock.py": LOCK},
        (write("a.lock"), write("b.txt")),
    ),
    person(
        "commands that the person allows",
        permissions(allow=["Bash(touch one)", "Bash(mkdir:*)"]),
        files("one", "two"),
        bash("touch one"),
        bash("touch two"),
        bash("mkdir made && touch one"),
    ),
    person(
        "commands that the person allows by a glued star",
        permissions(allow=["Bash(touch t*)"]),
        TOUCHED,
        *TOUCH,
        chosen=AT_A_WORD,
    ),
    person("a mode of the person", permissions(defaultMode="acceptEdits"), files("w"), write("w"), mode="", level=""),
    person(
        "a folder that the person adds",
        permissions(additionalDirectories=["~/other"]),
        names_file,
        ("Read", {"file_path": "TREE/../home/other/b.txt"}),
        home={"other/b.txt": "words of it\n"},
        chosen=BY_FOLDER,
    ),
    person("a style of the person", STYLE[SHARED], said, home=STYLE, chosen=BY_STYLE),
    denied(
        "glob of files",
        "Read(**/*.pem)",
        files("one", "two"),
        bash("cat in/k.pem > one"),
        bash("cat k.pem > two"),
        tree={"in/k.pem": "words\n", "k.pem": "words\n"},
    ),
    denied(
        "beginning of a file's name",
        "Read(.env*)",
        files("one", "two"),
        bash("cat in/.env.x > one"),
        bash("cat env > two"),
        tree={"in/.env.x": "a=1\n", "env": "c\n"},
    ),
    denied(
        "path is in no search",
        "Read(hidden/**)",
        lambda played: [word in played.requests[-1] for word in ("hiddenwords", "openwords")],
        bash("grep -r word . || true"),
        tree={"hidden/k": "hiddenwords\n", "open": "openwords\n"},
    ),
    denied(
        "path from the project's root",
        "Edit(/src/**)",
        files("src/a", "src/c", "b"),
        write("src/a"),
        bash("touch src/c"),
        write("b"),
        tree={"src/x": "x\n"},
    ),
    denied(
        "agent",
        "Agent(reviewer)",
        has_role,
        DELEGATE,
        tree={".claude/agents/reviewer.md": AGENT.format(more="color: blue")},
    ),
    denied(
        "skill",
        "Skill(ship)",
        marked,
        ("Skill", {"skill": "ship"}),
        tree={".claude/skills/ship/SKILL.md": SKILL.replace("$ARGUMENTS ", "")},
    ),
    denied("command with a star before other words", "Bash(touch * two)", TOUCHED, bash("touch one two")),
    Row(
        "an edit that has to ask",
        files("src/a", "b"),
        {SHARED: permissions(ask=["Edit(src/**)"]), "src/x": "x\n"},
        (write("src/a"), write("b")),
        mode="acceptEdits",
        level="edit",
    ),
    Row("the model of a command", family, {".claude/commands/g.md": "---\nmodel: haiku\n---\nGo.\n"}, prompt="/g"),
    skill("the model of a skill", "Go.", family, front="model: opus\n"),
    Row(
        "a guide names a file by an argument",
        names_file,
        {".claude/commands/g.md": "Look at @$0 now.\n", "a.txt": "words of it\n"},
        prompt="/g a.txt",
    ),
    Row(
        "an argument of a guide brings a file",
        names_file,
        {".claude/commands/g.md": "Look at $ARGUMENTS.\n", "a.txt": "words of it\n"},
        prompt="/g @a.txt",
        chosen=BY_OPTION,
    ),
    Row(
        "a guide with a command that fails",
        lambda played: len(played.requests),
        {".claude/commands/g.md": "BEGIN !`ls nothere` END\n"},
        prompt="/g",
        sends_nothing=True,
        chosen=IN_PLACE,
    ),
    skill(
        "a skill that the person may not call",
        "BEGIN s END",
        lambda played: len(played.requests),
        front="user-invocable: false\n",
        sends_nothing=True,
        chosen=AS_TEXT,
    ),
    skill("a skill names its folder", "BEGIN ${CLAUDE_SKILL_DIR}/a.sh END", guide),
    skill(
        "a skill works apart",
        "BEGIN forked END",
        lambda played: ["BEGIN forked END" in one for one in played.requests],
        front="context: fork\n",
    ),
    skill(
        "a skill brings the output of a command",
        "BEGIN !`echo hi` END",
        guide,
        front="allowed-tools: Bash(echo:*)\n",
        mode="default",
        level="ask",
    ),
    skill(
        "a skill with a command is read by the model",
        "BEGIN !`echo hi` END",
        marked,
        ("Skill", {"skill": "ship"}),
        prompt="go",
        chosen=AS_WRITTEN,
    ),
    Row(
        "a command is read by the model",
        marked,
        {".claude/commands/g.md": "---\ndescription: G.\n---\nBEGIN g END\n"},
        (("Skill", {"skill": "g"}),),
        chosen=BY_PERSON,
    ),
    Row(
        "a command of the person",
        guide,
        {"a.txt": "x\n"},
        home={".claude/commands/g.md": "BEGIN mine $ARGUMENTS END\n"},
        prompt="/g x",
    ),
    Row(
        "a command of the project and of the person",
        guide,
        {".claude/commands/g.md": "BEGIN project END\n"},
        home={".claude/commands/g.md": "BEGIN mine END\n"},
        prompt="/g",
    ),
    Row(
        "words ask for an agent",
        lambda played: "reviewer" in str(json.loads(played.requests[0])["messages"][-1]),
        {".claude/agents/reviewer.md": AGENT.format(more="color: blue")},
        prompt="@agent-reviewer look at it",
    ),
    below("instructions", said, {}),
    below("a command", lambda played: " g " in marked(played), {".claude/commands/g.md": "BEGIN g END\n"}, prompt="/g"),
    below(
        "a skill and an agent",
        listed("Ships it.", "Reviews every change."),
        {".claude/skills/ship/SKILL.md": SKILL, ".claude/agents/reviewer.md": AGENT.format(more="color: blue")},
    ),
    below(
        "rules of the root",
        files("sub/one", "sub/two"),
        {SHARED: permissions(deny=["Bash(touch one)"])},
        bash("touch one"),
        bash("touch two"),
        chosen=STRICTER,
    ),
    below(
        "rules of the folder",
        files("sub/one", "sub/two"),
        {f"sub/{SHARED}": permissions(deny=["Bash(touch one)"])},
        bash("touch one"),
        bash("touch two"),
        trusts="sub",
    ),
    codex("instructions of the person", marked, "", {}, home={".codex/AGENTS.md": "BEGIN mine END\n"}),
    codex(
        "rules of the person",
        files("one", "two"),
        "",
        {},
        touch("one"),
        touch("two"),
        home={".codex/rules/a.rules": 'prefix_rule(pattern=["touch", "one"], decision="forbidden")\n'},
    ),
    codex(
        "skills of the person",
        listed("Ships it.", "Plans it."),
        "",
        {},
        home={
            ".codex/skills/ship/SKILL.md": SKILL,
            ".agents/skills/plan/SKILL.md": SKILL.replace("ship", "plan").replace("Ships", "Plans"),
        },
    ),
    codex(
        "a server of the person",
        listed("Adds a note."),
        '[mcp_servers.memo]\ncommand = "python3"\nargs = ["server.py"]\n',
        {"server.py": SERVERS["server.py"]},
        level="all",
        listed="memo",
    ),
    codex(
        "a server of the project",
        listed("Adds a note."),
        "",
        {
            "server.py": SERVERS["server.py"],
            ".codex/config.toml": '[mcp_servers.memo]\ncommand = "python3"\nargs = ["TREE/server.py"]\n',
        },
        level="all",
        chosen=BY_MCP_JSON,
    ),
    codex(
        "another name of instructions",
        said,
        'project_doc_fallback_filenames = ["GUIDE.md"]\n',
        {"GUIDE.md": "BEGIN guide END\n"},
        chosen=BY_IMPORT,
    ),
    codex(
        "instructions beyond a limit",
        said,
        "project_doc_max_bytes = 100\n",
        {"AGENTS.md": f"BEGIN first END\n{'x' * 200}\nBEGIN last END\n"},
        chosen=MORE_READ,
    ),
    codex(
        "a start below",
        said,
        "",
        {"AGENTS.md": "BEGIN top END\n", "sub/AGENTS.md": "BEGIN sub END\n", "sub/in/AGENTS.md": "BEGIN in END\n"},
        start="sub",
    ),
    codex(
        "words name a skill",
        marked,
        "",
        {".agents/skills/ship/SKILL.md": SKILL.replace("$ARGUMENTS ", "")},
        prompt="use $ship now",
    ),
)
