"""The rows of the bench: a tree, what the model does in it, and what must be the same in the peer and in nexus.

Calls have the peer's names and arguments, which nexus translates. `TREE` in a text stands for the path of the tree.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from tools.documents import SCANNED, make_pdf

Call = tuple[str, Mapping[str, Any]]
Step = Call | tuple[Call, ...] | str
"""What the model does in one reply: a call, several, or a text that ends the turn."""


@dataclass(frozen=True)
class Played:
    """What a program left behind."""

    tree: Path
    home: Path
    requests: list[str]
    """The bodies of the requests that offered tools, as they came."""
    status: int
    output: str = ""
    """What the program wrote; with an editor the messages between both."""

    def files(self, *names: str) -> dict[str, str | None]:
        """Return the content of files of the tree, None for one that is not there."""
        return {name: path.read_text() if (path := self.tree / name).is_file() else None for name in names}

    def between(self, begin: str, end: str) -> list[str]:
        """Return what stands between two marks in the last request."""
        text = json.dumps(json.loads(self.requests[-1]), ensure_ascii=False)
        return re.findall(f"{begin}(.*?){end}", text, re.DOTALL)

    def said(self) -> list[tuple[str, str]]:
        """Return who said each marked text of the conversation in the last request: `user`, `assistant`, a `call` or a
        `result`; one text once, and of several calls the results in the order of the texts."""
        body = json.loads(self.requests[-1])
        found = [
            (kind, text)
            for one in body.get("messages") or body.get("input")
            for kind, said in _parts(one)
            for text in re.findall("BEGIN (.*?) END", said, re.DOTALL)
        ]
        groups = (list(group) for _, group in groupby(dict.fromkeys(found), key=lambda one: one[0]))
        return [one for group in groups for one in (sorted(group) if group[0][0] == "result" else group)]


def _parts(message: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the parts of a message, or of an item of the form of codex, each with what it is."""
    if message.get("type") in ("function_call", "custom_tool_call"):
        return [("call", str(message.get("arguments") or message.get("input")))]
    if message.get("type") in ("function_call_output", "custom_tool_call_output"):
        return [("result", str(message["output"]))]
    content = message.get("content") or []
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    kinds = {"tool_use": "call", "tool_result": "result"}
    return [
        (kinds.get(one["type"], str(message["role"])), str(one.get("text") or one.get("input") or one.get("content")))
        for one in blocks
    ]


Look = Callable[[Played], Any]


@dataclass(frozen=True)
class Row:
    """One comparison."""

    name: str
    look: Look
    """What is compared: a function of what was played."""
    tree: Mapping[str, str | bytes]
    calls: tuple[Step, ...] = ()
    """The steps of the model; then it says that it is done."""
    worker: tuple[Step, ...] = ()
    """The calls of an agent with the role of `AGENT`."""
    peer: str = "claude"
    prompt: str = "go"
    home: Mapping[str, str] = field(default_factory=dict)
    """The person's own files; nexus imports the settings of `.claude`."""
    editor: tuple[str, ...] = ()
    """The options of the client of ACP that starts the program as an agent."""
    plugin: str = ""
    """`PLUGIN@MARKETPLACE`, which the person installs from the folder `market` of the home."""
    level: str = "auto"
    """At which nexus plays; a peer asks nothing. "" is that of the settings."""
    mode: str = "bypassPermissions"
    """The permission mode in which Claude Code plays; "" is that of the settings."""
    start: str = "."
    """The folder of the tree in which both begin."""
    trusts: str = "."
    """A folder of the tree; its configuration is trusted, and those of the folders above."""
    listed: str = ""
    """A server whose tools nexus knows from before: the first request of a first session waits a second for them."""
    then: tuple[str, ...] = ()
    """Further messages to the session, each in a process of its own. Nexus plays the last one alone, in the session
    that it imports from the peer."""
    judge: str = "title"
    """What the model answers to requests that offer no tools."""
    exports: bool = False
    """True if nexus plays all but the last message, which goes to the peer, in the session that nexus exports."""
    sends_nothing: bool = False
    """True if the message is refused before a request: without one a row counts as not run."""
    chosen: str = ""
    """Why nexus means to differ here."""

    def script(self, tree: Path) -> dict[str, Any]:
        """Return the script of the model: its steps, and those of an agent, which both end with a text."""
        agent = {"when": {"anywhere": "ROLEBEGIN"}, "then": [*_steps(self.worker), "done"]}
        rules = [{"when": {"offers": "-"}, "then": self.judge}, agent]
        text = json.dumps({"rules": rules, "steps": _steps(self.calls), "default": "done"})
        script: dict[str, Any] = json.loads(text.replace("TREE", str(tree)))
        return script


def _steps(steps: tuple[Step, ...]) -> list[Any]:
    found: list[Any] = []
    for step in steps:
        if isinstance(step, str):
            found.append(step)
            continue
        calls = (step,) if isinstance(step[0], str) else step
        found.append({"calls": [{"name": name, "arguments": given} for name, given in calls]})
    return found


def settings(**keys: Any) -> str:
    return json.dumps(keys)


def hook(command: str, *events: str, matcher: str = "", **keys: Any) -> dict[str, Any]:
    """Return the value of `hooks` with one command at several events."""
    entry = {"type": "command", "command": command, **keys}
    return {event: [{"matcher": matcher, "hooks": [entry]}] for event in events}


def bash(command: str) -> Call:
    return "Bash", {"command": command}


def files(*names: str) -> Look:
    return lambda played: played.files(*names)


def guide(played: Played) -> list[str]:
    """Return the text of a guide as it was sent, between its own marks; what only describes it comes before."""
    return played.between("BEGIN", "END")[-1:]


def blocks(played: Played) -> list[dict[str, Any]]:
    """Return the blocks of the conversation in the last request, those inside of results behind theirs."""
    body = json.loads(played.requests[-1])
    outer = [one for message in body["messages"] if isinstance(message["content"], list) for one in message["content"]]
    inner = [one.get("content") for one in outer]
    return [*outer, *(block for found in inner if isinstance(found, list) for block in found)]


def pictures(played: Played) -> list[tuple[str, str]]:
    """Return type and data of each picture in the last request."""
    return [(one["source"]["media_type"], one["source"]["data"]) for one in blocks(played) if one["type"] == "image"]


def has_role(played: Played) -> bool:
    """Return True if a request has the role of `AGENT`."""
    return any("ROLEBEGIN Terse. ROLEEND" in one for one in played.requests)


_VARYING = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
    (r'"(session_id|tool_use_id|agent_id)":"[^"]*"', r'"\1":"ID"'),
    (r'"((?:agent_)?transcript_path)":"[^"]+"', r'"\1":"FILE"'),
    (r'"background_tasks":\[[^]]*\]', '"background_tasks":[]'),
    (r'"model":"[^"]+"', '"model":"MODEL"'),
    (r'"duration_ms":\d+', '"duration_ms":N'),
)
"""What differs from one run to the next."""


def inputs(played: Played) -> list[str]:
    """Return what hooks got on stdin, byte for byte but for ids, times and the place of the transcript."""
    text = (played.tree / "seen.log").read_text() if (played.tree / "seen.log").is_file() else ""
    for pattern, stands in _VARYING:
        text = re.sub(pattern, stands, text)
    return text.split("|")


AGENT = """---
name: reviewer
description: Reviews every change.
{more}
---
ROLEBEGIN Terse. ROLEEND
"""
DELEGATE: Call = ("Agent", {"description": "review", "prompt": "Review it.", "subagent_type": "reviewer"})
"""A call that hands work to `AGENT`, whose calls are the next ones."""
WHAT = "Edit(locked/**)", "Read(hidden/**)"
LOCKED = {
    ".claude/settings.json": settings(permissions={"deny": list(WHAT)}),
    "locked/b": "first\n",
    "locked/f": "stays\n",
    "a.txt": "text\n",
    "hidden/key": "words\n",
}
WRITES: tuple[Call, ...] = (
    ("Read", {"file_path": "TREE/locked/b"}),
    ("Edit", {"file_path": "TREE/locked/b", "old_string": "first", "new_string": "other"}),
    ("Write", {"file_path": "TREE/locked/a", "content": "new\n"}),
    bash("echo x > locked/z"),
    bash("cp a.txt locked/c"),
    bash("sed -i s/first/x/ locked/b"),
    bash("cd locked && echo x > d"),
    bash("tee locked/e < a.txt"),
    bash("rm locked/f"),
    bash("cat hidden/key > copied"),
    ("Read", {"file_path": "TREE/hidden/key"}),
)
WRITTEN = tuple(f"locked/{name}" for name in "abcdefghz")
SEE = 'cat >> "$CLAUDE_PROJECT_DIR/seen.log"; printf "|" >> "$CLAUDE_PROJECT_DIR/seen.log"'
EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop", "SessionEnd")
GUARD = 'grep -q \'"command":"touch ü\' && { echo no >&2; exit 2; }; exit 0'
MONEY = 'BEGIN 240 hours × $150/hour = $36,000; awk \'{print $2, $11}\'; if [ ! -f "$1" ]; local file="$1" END\n'
ARGS = "BEGIN zero=$0 one=$1 two=$2 all=$ARGUMENTS END\n"
COUNTS = "without $0 and arguments: $1 is the first, as many older commands and codex mean it"
NAMED = "---\narguments: [issue, prio]\n---\nBEGIN issue=$issue prio=$prio zero=$0 one=$1 two=$2 END\n"
FIRST = "BEGIN one=$1 two=$2 three=$3 all=$ARGUMENTS END\n"
TRANSCRIPT = (
    'path=$(sed -n \'s/.*"transcript_path":"\\([^"]*\\)".*/\\1/p\');'
    ' grep -o \'"type":"\\(assistant\\|user\\)"\' "$path" | sort -u > "$CLAUDE_PROJECT_DIR/seen.txt";'
    ' grep -c "echo one" "$path" > "$CLAUDE_PROJECT_DIR/found.txt"; exit 0'
)
OWN_LOG = "tee -a hook.log | grep -q forbidden && { echo no >&2; exit 2; }; exit 0"
LOGS = (
    "cat > /dev/null; echo ran >> .claude/mine.log; echo ran >> ~/.claude/bash-command-log.txt && echo ran >> home.txt"
)


def claude_hooks(**hooks: Any) -> dict[str, str]:
    return {".claude/settings.json": settings(hooks=hooks), "a.txt": "ä line\nsecond\n"}


def marked(played: Played) -> list[str]:
    """Return what reached the model between the marks, each text once."""
    return sorted(set(played.between("BEGIN", "END")))


def by_request(played: Played) -> list[list[str]]:
    """Return which marked texts each request had."""
    return [sorted(set(re.findall("BEGIN (.*?) END", text))) for text in played.requests]


FOLDERS = {
    "CLAUDE.md": "BEGIN Of all. END\n",
    "api/CLAUDE.md": "BEGIN Of api. END\n",
    "api/v1/CLAUDE.md": "BEGIN Of version one. END\n",
    "api/v1/a.ts": "one\n",
    "web/CLAUDE.md": "BEGIN Of web. END\n",
    "web/a.ts": "two\n",
    "docs/CLAUDE.md": "BEGIN Of docs. END\n",
}
BY_PATH = {
    ".claude/rules/all.md": "BEGIN Always. END\n",
    ".claude/rules/api.md": '---\npaths:\n  - "api/**/*.ts"\n---\nBEGIN Of api. END\n',
    ".claude/rules/web.md": '---\npaths: "web/**"\n---\nBEGIN Of web. END\n',
    "api/v1/a.ts": "one\n",
}
SKILL = "---\nname: ship\ndescription: Ships it.\n---\nBEGIN Ship $ARGUMENTS at once. END\n"
ADDS = 'echo \'{"hookSpecificOutput":{"hookEventName":"UserPromptSubmit","additionalContext":"BEGIN Added. END"}}\''


def decide(**keys: Any) -> str:
    """Return the command of a hook that decides about a call."""
    answer = {"hookSpecificOutput": {"hookEventName": "PreToolUse", **keys}}
    return f"echo '{json.dumps(answer)}'"


DENIES = decide(permissionDecision="deny", permissionDecisionReason="BEGIN Not here. END")
CHANGES = decide(permissionDecision="allow", updatedInput={"command": "touch other"})
TIGHTENS = "a project's hook only tightens; a `[[hook]]` of the person changes the input"
NAMES = "hooks run commands: the import names those of the person, who copies what is wanted"
MEANT = "an import in such a file is meant, as in one of the folder itself"
BY_WRAP = "without bubblewrap a project's hook writes nothing in the home folder"
ONCE = "[ -e stopped ] && exit 0; touch stopped; echo BEGIN Not yet. END >&2; exit 2"


def command_row(name: str, text: str, prompt: str, chosen: str = "") -> Row:
    return Row(name, guide, {".claude/commands/g.md": text}, prompt=prompt, chosen=chosen)


ROWS = (
    Row(
        "text that is still there is edited in a file that a command or a hook changed since it was read",
        files("seen.txt", "hooked.txt"),
        {
            "seen.txt": "one\ntwo\nthree\n",
            "hooked.txt": "one\ntwo\nthree\n",
            **claude_hooks(**hook("sed -i s/one/ONE/ hooked.txt", "PostToolUse", matcher="Bash")),
        },
        (
            ("Read", {"file_path": "TREE/seen.txt"}),
            ("Read", {"file_path": "TREE/hooked.txt"}),
            bash("sleep 1.5; sed -i s/one/ONE/ seen.txt"),
            *(
                ("Edit", {"file_path": f"TREE/{name}.txt", "old_string": "three", "new_string": "drei"})
                for name in ("seen", "hooked")
            ),
        ),
    ),
    Row("a denied path is written by no tool and no command", files(*WRITTEN), LOCKED, WRITES),
    Row("a denied path is read by no tool and no command", files("copied"), LOCKED, WRITES),
    Row(
        "rules of the person hold alike",
        files(*WRITTEN, "copied"),
        {name: text for name, text in LOCKED.items() if "settings" not in name},
        WRITES,
        home={".claude/settings.json": LOCKED[".claude/settings.json"]},
    ),
    Row(
        "a denied path is safe where nothing asks",
        files(*WRITTEN, "copied"),
        LOCKED,
        WRITES,
        level="all",
    ),
    Row(
        "the input of hooks, byte for byte",
        inputs,
        claude_hooks(**hook(SEE, *EVENTS)),
        (
            bash("echo hü > out; cat out"),
            bash("ls nothere"),
            ("Read", {"file_path": "TREE/a.txt"}),
            ("Edit", {"file_path": "TREE/a.txt", "old_string": "second", "new_string": "zweite"}),
            ("Write", {"file_path": "TREE/b.txt", "content": "new\n"}),
        ),
        prompt="do it ü",
        level="all",
    ),
    Row(
        "a guard that greps its input",
        files("ü"),
        claude_hooks(**hook(GUARD, "PreToolUse", matcher="Bash")),
        (bash("touch ü"),),
    ),
    Row(
        "a Stop hook reads the transcript",
        files("seen.txt", "found.txt"),
        claude_hooks(**hook(TRANSCRIPT, "Stop")),
        (bash("echo one"),),
    ),
    Row(
        'a hook with "shell": "bash"',
        files("seen.txt"),
        claude_hooks(**hook("echo ran > seen.txt", "SessionStart", shell="bash")),
    ),
    Row(
        "a hook that writes its own log guards every call",
        files("first", "second"),
        claude_hooks(**hook(OWN_LOG, "PreToolUse", matcher="Bash")),
        (bash("touch first"), bash("touch second; : forbidden")),
    ),
    Row(
        "a hook writes its log in .claude and ~/.claude",
        files(".claude/mine.log", "home.txt"),
        claude_hooks(**hook(LOGS, "SessionStart")),
        home={".claude/CLAUDE.md": "Mine.\n"},
        chosen="" if shutil.which("bwrap") else BY_WRAP,
    ),
    Row(
        "which hook follows a command that fails",
        files("events.txt"),
        claude_hooks(
            PostToolUse=hook("cat > /dev/null; echo went well >> events.txt", "PostToolUse")["PostToolUse"],
            PostToolUseFailure=hook("cat > /dev/null; echo failed >> events.txt", "PostToolUseFailure")[
                "PostToolUseFailure"
            ],
        ),
        (bash("true"), bash("ls nothere")),
    ),
    command_row("a guide with prices and shell, called with one word", MONEY, "/g x", chosen=COUNTS),
    command_row("the same without arguments", MONEY, "/g"),
    command_row("$0 is the first argument where it is used", ARGS, "/g 12 'high prio'"),
    command_row("named arguments", NAMED, "/g 12 'high prio'"),
    command_row("a guide that counts from $1", FIRST, "/g 12 'high prio'", chosen=COUNTS),
    Row(
        "codex: a guard that greps its input",
        files("ü"),
        {".codex/hooks.json": settings(hooks=hook(GUARD, "PreToolUse"))},
        (("exec_command", {"cmd": "touch ü"}),),
        peer="codex",
    ),
    Row(
        "codex: which hook follows a command that fails",
        files("events.txt"),
        {".codex/hooks.json": settings(hooks=hook("cat > /dev/null; echo after >> events.txt", "PostToolUse"))},
        (("exec_command", {"cmd": "true"}), ("exec_command", {"cmd": "ls nothere"})),
        peer="codex",
    ),
    Row(
        "instructions of folders below come with their first file",
        by_request,
        FOLDERS,
        (("Read", {"file_path": "TREE/api/v1/a.ts"}), ("Read", {"file_path": "TREE/web/a.ts"})),
    ),
    Row(
        "rules by path come with the files that they name",
        by_request,
        BY_PATH,
        (("Read", {"file_path": "TREE/api/v1/a.ts"}),),
    ),
    Row("a skill is called by its name", guide, {".claude/skills/ship/SKILL.md": SKILL}, prompt="/ship 1.2 now"),
    Row("a hook adds to the prompt, as JSON", marked, claude_hooks(**hook(ADDS, "UserPromptSubmit"))),
    Row(
        "a hook adds to the prompt, as text", marked, claude_hooks(**hook("echo BEGIN Plain. END", "UserPromptSubmit"))
    ),
    Row("a hook adds to the start", marked, claude_hooks(**hook("echo BEGIN Started. END", "SessionStart"))),
    Row(
        "a hook denies by its decision, with the reason",
        lambda played: (marked(played), played.files("made")),
        claude_hooks(**hook(DENIES, "PreToolUse", matcher="Bash")),
        (bash("touch made"),),
    ),
    Row(
        "an import of a folder below",
        marked,
        {"api/CLAUDE.md": "See @style.md.\n", "api/style.md": "BEGIN Style of api. END\n", "api/a.ts": "one\n"},
        (("Read", {"file_path": "TREE/api/a.ts"}),),
        chosen=MEANT,
    ),
    Row(
        "a hook of the project changes the command",
        files("made", "other"),
        claude_hooks(**hook(CHANGES, "PreToolUse", matcher="Bash")),
        (bash("touch made"),),
        chosen=TIGHTENS,
    ),
    Row(
        "a hook of the person changes the command",
        files("made", "other"),
        {"a.txt": "x\n"},
        (bash("touch made"),),
        home=claude_hooks(**hook(CHANGES, "PreToolUse", matcher="Bash")),
        chosen=NAMES,
    ),
    Row(
        "a Stop hook sends the model on, once",
        lambda played: (len(played.requests), "Not yet. END" in played.requests[-1]),
        claude_hooks(**hook(ONCE, "Stop")),
    ),
    Row(
        "the pages of a PDF are seen",
        lambda played: bool(re.search(r'"media_type": ?"(application/pdf|image/png)"', played.requests[-1])),
        {"a.pdf": make_pdf(["Page one.", SCANNED]).decode("ascii")},
        (("Read", {"file_path": "TREE/a.pdf"}),),
    ),
    Row(
        "a command that fails tells its status and output",
        lambda played: [word in played.requests[-1] for word in ("out of it", "err of it", "3")],
        {"a.txt": "x\n"},
        (bash("echo out of it; echo err of it >&2; exit 3"),),
    ),
    Row(
        "the files of instructions of one folder",
        lambda played: sorted(set(played.between("BEGIN", "END"))),
        {name: f"BEGIN {name} END\n" for name in ("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md")},
    ),
    Row(
        "instructions that import another file alone",
        lambda played: len(played.between("BEGIN", "END")),
        {"AGENTS.md": "BEGIN once END\n", "CLAUDE.md": "@AGENTS.md\n"},
    ),
    Row(
        "rules of the person",
        lambda played: sorted(set(played.between("BEGIN", "END"))),
        {"src/a.py": "1\n", "docs/b.md": "2\n"},
        (("Read", {"file_path": "TREE/src/a.py"}),),
        home={
            ".claude/rules/always.md": "BEGIN always END\n",
            ".claude/rules/src.md": "---\npaths: src/**\n---\nBEGIN src END\n",
            ".claude/rules/docs.md": "---\npaths: docs/**\n---\nBEGIN docs END\n",
        },
    ),
    Row(
        "an agent works with its role",
        lambda played: (has_role(played), played.files("made")),
        {".claude/agents/team/any.md": AGENT.format(more="tools: Write, Bash")},
        (DELEGATE,),
        (("Write", {"file_path": "TREE/made", "content": "by the agent\n"}),),
    ),
    Row(
        "an agent has its tools alone",
        lambda played: (has_role(played), played.files("made", "other")),
        {".claude/agents/reviewer.md": AGENT.format(more="tools: Read, Grep")},
        (DELEGATE,),
        (("Write", {"file_path": "TREE/made", "content": "x\n"}), bash("touch other")),
    ),
    Row(
        "an agent lacks the tools that it excludes",
        lambda played: (has_role(played), played.files("made", "other")),
        {".claude/agents/reviewer.md": AGENT.format(more="disallowedTools: Write")},
        (DELEGATE,),
        (("Write", {"file_path": "TREE/made", "content": "x\n"}), bash("touch other")),
    ),
    Row(
        "the agents are listed with their descriptions",
        lambda played: "Reviews every change." in played.requests[0],
        {".claude/agents/reviewer.md": AGENT.format(more="color: blue")},
    ),
    Row(
        "an agent of the person",
        lambda played: has_role(played),
        {"a.txt": "x\n"},
        (DELEGATE,),
        home={".claude/agents/mine.md": AGENT.format(more="color: blue")},
    ),
    Row(
        "codex: AGENTS.md reaches the model",
        lambda played: played.between("BEGIN", "END")[:1],
        {"AGENTS.md": "BEGIN Tabs, never blanks. END\n"},
        peer="codex",
    ),
)
