"""The rows about hooks; see `rows.py`."""

from __future__ import annotations

import json
from typing import Any

from parity.rows import (
    AGENT,
    DELEGATE,
    SEE,
    Played,
    Row,
    bash,
    by_request,
    claude_hooks,
    decide,
    files,
    hook,
    inputs,
    marked,
    settings,
)


def several(*hooks: dict[str, Any]) -> dict[str, str]:
    """Return a tree whose hooks are those of several values of `hooks`."""
    merged: dict[str, list[Any]] = {}
    for one in hooks:
        for event, groups in one.items():
            merged.setdefault(event, []).extend(groups)
    return claude_hooks(**merged)


def answer(**keys: Any) -> str:
    """Return the command of a hook that prints this object."""
    return f"echo '{json.dumps(keys)}'"


def adds(event: str, text: str = "BEGIN Added. END") -> str:
    """Return the command of a hook that adds text at an event."""
    return answer(hookSpecificOutput={"hookEventName": event, "additionalContext": text})


def after(played: Played) -> tuple[int, list[str]]:
    """Return how many requests there were, and the marked texts of the last one."""
    return len(played.requests), marked(played)


REVIEWER = {".claude/agents/reviewer.md": AGENT.format(more="color: blue")}
EXPORT = 'echo "export FOO=bar" >> "$CLAUDE_ENV_FILE"; echo "export PATH=\\"\\$PATH:/opt/mine\\"" >> "$CLAUDE_ENV_FILE"'
WAIT = "touch began; sleep 2; touch ended; exit 2"
SUB = "[ -e stopped ] && exit 0; touch stopped; echo BEGIN Not yet. END >&2; exit 2"
BEFORE = "a hook that ends the turn before a call means the call too, which runs in the peer"
GUIDES = {".claude/commands/g.md": "Do $ARGUMENTS.\n", ".claude/commands/h.md": "Do.\n"}
NAMED_LATE = "nexus has no such events: trust, `nexus hooks` and the session name them"
NAMED_TYPE = "a hook that asks a model is not supported: trust, `nexus hooks` and the session name it"
REFUSES_AND_FAILS = decide(permissionDecision="deny", permissionDecisionReason="BEGIN Not here. END") + "; exit 1"
HOOK_ROWS = (
    Row(
        "a hook refuses in JSON and fails",
        lambda played: (marked(played), played.files("made")),
        claude_hooks(**hook(REFUSES_AND_FAILS, "PreToolUse")),
        (bash("touch made"),),
    ),
    Row(
        "codex: a hook refuses in JSON and fails",
        files("made"),
        {".codex/hooks.json": settings(hooks=hook(REFUSES_AND_FAILS, "PreToolUse"))},
        (("exec_command", {"cmd": "touch made"}),),
        peer="codex",
    ),
    Row(
        "hooks of an agent's start and end, byte for byte",
        inputs,
        several(hook(SEE, "SubagentStart", "SubagentStop")) | REVIEWER,
        (DELEGATE,),
        level="all",
    ),
    Row(
        "a hook adds to the start of an agent",
        lambda played: sorted({text for each in by_request(played) for text in each}),
        several(hook(adds("SubagentStart"), "SubagentStart", matcher="reviewer")) | REVIEWER,
        (DELEGATE,),
    ),
    Row(
        "a hook sends an agent on, once",
        lambda played: sum("Not yet." in text for text in played.requests),
        several(hook(SUB, "SubagentStop")) | REVIEWER,
        (DELEGATE,),
    ),
    Row(
        "a hook of the end of another agent",
        files("ran"),
        several(hook("touch ran", "SubagentStop", matcher="other")) | REVIEWER,
        (DELEGATE,),
    ),
    Row(
        "the calls of an agent name it to hooks",
        inputs,
        several(hook(SEE, "PreToolUse", "PostToolUse", matcher="Bash")) | REVIEWER,
        (DELEGATE,),
        (bash("true"),),
        level="all",
    ),
    Row(
        "a hook sets variables for later commands",
        files("out", "path"),
        several(hook(EXPORT, "SessionStart")),
        (bash("echo $FOO > out; echo $PATH | grep -c /opt/mine > path"),),
    ),
    *(
        Row(
            f"variables of settings{name}",
            files("out"),
            {".claude/settings.json": settings(env={"ONE": "one", "NUMBER": 5, "ON": True, "TEXT": "$HOME"}, **more)}
            | local,
            (bash('echo "$ONE $NUMBER $ON $TEXT" > out'),),
        )
        for name, more, local in (
            ("", {}, {}),
            (": the local file comes first", {}, {".claude/settings.local.json": settings(env={"ONE": "own"})}),
            (": what a hook sets comes first", {"hooks": hook(EXPORT.replace("FOO", "ONE"), "SessionStart")}, {}),
        )
    ),
    Row(
        "a hook with `if` runs for what it names alone",
        files("runs"),
        several(hook("echo ran >> runs", "PreToolUse", matcher="Bash", **{"if": "Bash(touch *)"})),
        (bash("true"), bash("touch one"), bash("true && touch two"), ("Read", {"file_path": "TREE/a.txt"})),
    ),
    *(
        Row(
            f"a hook with `if` that ends in a glued star: {line}",
            files("runs"),
            several(hook("echo ran >> runs", "PreToolUse", **{"if": condition})),
            (bash(line),),
        )
        for condition, line in (
            ("Bash(git commit*)", "true && git commit-tree x"),
            ("Bash(git commit*)", "git $X"),
            ("Bash(git commit*)", "git status"),
            ("Bash(tou*)", "touch one"),
        )
    ),
    Row(
        "a hook with `if` of a path",
        files("runs"),
        several(hook("echo ran >> runs", "PreToolUse", **{"if": "Edit(src/**)"})),
        (
            ("Write", {"file_path": "TREE/src/new.txt", "content": "x\n"}),
            ("Write", {"file_path": "TREE/new.txt", "content": "x\n"}),
        ),
    ),
    Row(
        "a hook with `if` at an event without calls",
        files("runs"),
        several(hook("echo ran >> runs", "SessionStart", **{"if": "Bash(touch *)"})),
    ),
    Row(
        "a hook after a call adds to its result",
        marked,
        several(hook(adds("PostToolUse"), "PostToolUse", matcher="Bash")),
        (bash("true"),),
    ),
    Row(
        "a hook after a call blocks with a reason",
        marked,
        several(hook(answer(decision="block", reason="BEGIN Look again. END"), "PostToolUse")),
        (bash("true"),),
    ),
    Row(
        "a hook after a failed call adds to its result",
        marked,
        several(hook(adds("PostToolUseFailure"), "PostToolUseFailure")),
        (bash("ls nothere"),),
    ),
    Row(
        "a message for the person is not for the model",
        marked,
        several(hook(answer(systemMessage="BEGIN Said. END", suppressOutput=True), "SessionStart", "PostToolUse")),
        (bash("true"),),
    ),
    Row(
        "a hook ends the turn after a call",
        after,
        several(hook(answer(**{"continue": False, "stopReason": "BEGIN Enough. END"}), "PostToolUse")),
        (bash("true"), bash("touch second")),
    ),
    Row(
        "a hook ends the turn before a call",
        lambda played: (after(played), played.files("first")),
        several(hook(answer(**{"continue": False, "stopReason": "BEGIN Enough. END"}), "PreToolUse")),
        (bash("touch first"), bash("touch second")),
        chosen=BEFORE,
    ),
    Row(
        "a hook ends the turn before it begins",
        lambda played: len(played.requests),
        several(hook(answer(**{"continue": False, "stopReason": "BEGIN Enough. END"}), "UserPromptSubmit")),
        sends_nothing=True,
    ),
    Row(
        "a hook refuses the prompt",
        lambda played: len(played.requests),
        several(hook("echo no >&2; exit 2", "UserPromptSubmit")),
        sends_nothing=True,
    ),
    Row(
        "a hook refuses the prompt, as JSON",
        lambda played: len(played.requests),
        several(hook(answer(decision="block", reason="no"), "UserPromptSubmit")),
        sends_nothing=True,
    ),
    Row(
        "a Stop hook ends what another one continues",
        lambda played: len(played.requests),
        several(hook(answer(**{"continue": False}), "Stop"), hook("echo no >&2; exit 2", "Stop")),
    ),
    Row(
        "an asynchronous hook holds nothing up",
        files("began", "made"),
        several(hook(WAIT, "PreToolUse", matcher="Bash", **{"async": True})),
        (bash("touch made"),),
    ),
    Row(
        "a hook beyond its time blocks nothing",
        files("began", "ended", "made"),
        several(hook("touch began; sleep 5; touch ended; exit 2", "PreToolUse", matcher="Bash", timeout=1)),
        (bash("touch made"),),
    ),
    Row(
        "a hook that fails blocks nothing",
        files("made"),
        several(hook("echo no >&2; exit 1", "PreToolUse", matcher="Bash")),
        (bash("touch made"),),
    ),
    Row(
        "a hook with `once`",
        files("runs"),
        several(hook("echo ran >> runs", "PreToolUse", matcher="Bash", once=True)),
        (bash("true"), bash("true ")),
    ),
    Row(
        "the same command in two places runs once",
        files("runs"),
        several(hook("echo ran >> runs", "PreToolUse", matcher="Bash"), hook("echo ran >> runs", "PreToolUse")),
        (bash("true"),),
    ),
    Row(
        "a matcher is a regular expression",
        lambda played: sorted((played.files("runs")["runs"] or "").split()),  # they run at the same time
        several(
            hook("echo edit >> runs", "PreToolUse", matcher="Edit|Write"),
            hook("echo begins >> runs", "PreToolUse", matcher="Ba.*"),
            hook("echo lower >> runs", "PreToolUse", matcher="bash"),
            hook("echo star >> runs", "PreToolUse", matcher="*"),
        ),
        (bash("true"),),
    ),
    Row(
        "a matcher of the start",
        files("runs"),
        several(
            hook("echo startup >> runs", "SessionStart", matcher="startup"),
            hook("echo resume >> runs", "SessionStart", matcher="resume"),
        ),
    ),
    Row(
        "a hook with arguments apart",
        files("runs", "x y"),
        several(hook("touch", "SessionStart", args=["x y"])),
    ),
    Row(
        "a hook asks for permission where nobody is",
        files("made"),
        several(hook(decide(permissionDecision="ask", permissionDecisionReason="hm"), "PreToolUse", matcher="Bash")),
        (bash("touch made"),),
    ),
    Row(
        "a refusing hook wins over one that allows",
        files("made"),
        several(
            hook(decide(permissionDecision="allow"), "PreToolUse", matcher="Bash"),
            hook("echo no >&2; exit 2", "PreToolUse", matcher="Bash"),
        ),
        (bash("touch made"),),
    ),
    Row(
        "hooks are switched off",
        files("runs"),
        {
            ".claude/settings.json": settings(
                disableAllHooks=True, hooks=hook("echo ran >> runs", "SessionStart", "PreToolUse")
            )
        },
        (bash("true"),),
    ),
    Row(
        "events that nexus does not have",
        lambda played: (played.tree / "seen.log").exists(),
        several(hook(SEE, "InstructionsLoaded", "CwdChanged", "MessageDisplay")) | {"CLAUDE.md": "Mine.\n"},
        (bash("true"),),
        chosen=NAMED_LATE,
    ),
    Row(
        "hooks of a guide and of a step's calls, byte for byte",
        inputs,
        several(hook(SEE, "UserPromptSubmit", "UserPromptExpansion", "PostToolBatch")) | GUIDES,
        ((bash("echo two"), bash("ls nothere")), bash("true")),
        prompt="/g it now",
        level="all",
    ),
    Row(
        "a hook refuses a guide",
        lambda played: len(played.requests),
        several(hook("echo no >&2; exit 2", "UserPromptExpansion", matcher="g")) | GUIDES,
        prompt="/g it now",
        sends_nothing=True,
    ),
    Row(
        "a hook of another guide",
        lambda played: len(played.requests),
        several(hook("echo no >&2; exit 2", "UserPromptExpansion", matcher="g")) | GUIDES,
        prompt="/h",
    ),
    Row(
        "hooks add to a guide and after a step",
        marked,
        several(
            hook(adds("UserPromptExpansion"), "UserPromptExpansion"),
            hook(adds("PostToolBatch", "BEGIN Step. END"), "PostToolBatch"),
        )
        | GUIDES,
        (bash("true"),),
        prompt="/g it now",
    ),
    Row(
        "a hook ends the turn after a step",
        after,
        several(hook("echo BEGIN Enough. END >&2; exit 2", "PostToolBatch")),
        (bash("true"), bash("touch second")),
    ),
    Row(
        "a hook of type prompt",
        lambda played: (len(played.requests), played.files("made")),
        several({"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "prompt", "prompt": "ok? $ARGUMENTS"}]}]}),
        (bash("touch made"),),
        judge='{"ok": false, "reason": "BEGIN Not that. END"}',
        chosen=NAMED_TYPE,
    ),
    Row(
        "a script of a start that defines a function",
        files("out"),
        several(hook("echo 'f() { echo hi; }' >> \"$CLAUDE_ENV_FILE\"", "SessionStart")),
        (bash("f > out"),),
        chosen="commands of the session get variables, and run no script of a hook",
    ),
    Row(
        "an asynchronous hook adds to a later result",
        marked,
        several(hook(adds("PostToolUse"), "PostToolUse", matcher="Bash", **{"async": True})),
        (bash("sleep 1"), bash("sleep 1 "), bash("sleep 1")),
    ),
    *(
        Row(
            f"a hook with `if`: {line}",
            files("runs"),
            several(hook("echo ran >> runs", "PreToolUse", **{"if": "Bash(git *)"})),
            (bash(line),),
        )
        for line in ("x=$(git status); echo $x", "FOO=1 git status", "for i in 1; do git log; done", "echo git x")
    ),
    Row(
        "codex: the input of hooks, byte for byte",
        inputs,
        {
            ".codex/hooks.json": settings(
                hooks=hook(
                    SEE.replace("$CLAUDE_PROJECT_DIR", "TREE"),
                    "SessionStart",
                    "UserPromptSubmit",
                    "PreToolUse",
                    "PostToolUse",
                    "Stop",
                )
            )
        },
        (("exec_command", {"cmd": "echo hü > out; cat out"}),),
        peer="codex",
        level="all",
    ),
    Row(
        "codex: a hook denies with its reason",
        lambda played: (marked(played), played.files("made")),
        {
            ".codex/hooks.json": settings(
                hooks=hook(
                    decide(permissionDecision="deny", permissionDecisionReason="BEGIN Not here. END"), "PreToolUse"
                )
            )
        },
        (("exec_command", {"cmd": "touch made"}),),
        peer="codex",
    ),
    Row(
        "codex: hooks add to the start and to the prompt",
        marked,
        {
            ".codex/hooks.json": settings(
                hooks=hook(adds("SessionStart", "BEGIN Started. END"), "SessionStart")
                | hook("echo BEGIN Plain. END", "UserPromptSubmit")
            )
        },
        peer="codex",
    ),
    Row(
        "codex: a Stop hook sends the model on, once",
        lambda played: (len(played.requests), "Not yet. END" in played.requests[-1]),
        {".codex/hooks.json": settings(hooks=hook(SUB, "Stop"))},
        peer="codex",
    ),
)
