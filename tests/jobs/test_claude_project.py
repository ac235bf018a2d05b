"""The job: a day in a public repository that was made for Claude Code: commands, hooks, agents,
rules. All of it works here, or a line says what does not.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program.stage import Stage, calls, stage
from programs import need
from project_files import commit_all, write_files
from terminal.repl import Repl
from terminal.terminal import ENTER

GUARD = """import json, sys
call = json.load(sys.stdin)
open("seen.jsonl", "a").write(json.dumps([call["hook_event_name"], call["tool_name"], call["tool_input"]]) + chr(10))
if call["tool_name"] == "Bash" and "rm -rf" in call["tool_input"]["command"]:
    print("BLOCKED: dangerous rm", file=sys.stderr)
    sys.exit(2)
"""
SESSION = """import json, sys
given = json.load(sys.stdin)
open("session.log", "a").write(given["hook_event_name"] + " " + given.get("source", given.get("reason", "")) + chr(10))
"""
CALC = "def add(a, b):\n    return a - b\n"
TEST = "from calc import add\nassert add(2, 3) == 5, add(2, 3)\nprint('1 passed')\n"
UV = "no-such-uv"
"""A program that is not on this machine."""
OTHER = "openai/gpt-5-mini"


def hook(command: str, matcher: str | None = "") -> list[dict[str, Any]]:
    given = [{"type": "command", "command": command}]
    return [{"hooks": given} if matcher is None else {"matcher": matcher, "hooks": given}]


SETTINGS = {
    "permissions": {
        "allow": ["Bash(git push:*)", "Write"],
        "deny": ["Bash(curl:*)", "Read(./secrets/**)", "WebFetch(domain:evil.example)", "Task(x*)"],
    },
    "statusLine": {"type": "command", "command": f"{UV} run status.py", "padding": 0},
    "hooks": {
        "PreToolUse": hook("python3 $CLAUDE_PROJECT_DIR/.claude/hooks/guard.py"),
        "PostToolUse": hook(f"{UV} run $CLAUDE_PROJECT_DIR/.claude/hooks/post.py"),
        "Stop": hook(f"{UV} run $CLAUDE_PROJECT_DIR/.claude/hooks/stop.py --chat"),
        "Notification": hook(f"{UV} run $CLAUDE_PROJECT_DIR/.claude/hooks/note.py"),
        "SubagentStop": hook(f"{UV} run $CLAUDE_PROJECT_DIR/.claude/hooks/sub.py"),
        "SessionStart": hook("python3 .claude/hooks/session.py", None),
        "SessionEnd": hook("python3 .claude/hooks/session.py", None),
    },
}
FILES = {
    ".claude/settings.json": json.dumps(SETTINGS),
    ".claude/hooks/guard.py": GUARD,
    ".claude/hooks/session.py": SESSION,
    ".claude/hooks/post.py": "print()\n",
    ".claude/agents/team/builder.md": "---\nname: builder\nmodel: opus\n---\nBuild one thing.\n",
    ".claude/output-styles/terse.md": "---\nname: terse\n---\nOne line.\n",
    ".claude/commands/prime.md": "---\nallowed-tools: Bash, Read\ndescription: Load context\n---\n"
    "Branch: !`git branch --show-current`\nRead @README.md\n",
    ".claude/commands/plan_w_team.md": "---\ndescription: Plan with all\nargument-hint: [user prompt] [orchestration]\n"
    f"model: {OTHER}\nhooks:\n  Stop:\n    - hooks:\n        - type: command\n          command: >-\n"
    "            uv run x.py\n---\nPlan $1 with @agent-builder.\n",
    ".claude/commands/old.md": "---\nmodel: opus\n---\nSay hello.\n",
    ".claude/CLAUDE.md": "Names are whole words.\nSee @../docs/style.md.\n",
    "docs/style.md": "Tabs.\n",
    "README.md": "# Calc\n",
    "calc.py": CALC,
    "test_calc.py": TEST,
}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    need("git")
    need("bwrap")
    with stage(tmp_path) as made:
        write_files(made.folder, FILES)
        for number in range(20):
            (made.folder / f".claude/commands/step{number}.md").write_text(f"Step {number}.\n")
        commit_all(made.folder)
        yield made


def plain(text: str) -> str:
    return " ".join(text.split())


def worker(*steps: tuple[str, dict[str, Any]]) -> Any:
    def model(body: Any) -> dict[str, Any]:
        since = max(at for at, one in enumerate(body["messages"]) if one["role"] == "user")
        done = sum(one["role"] == "tool" for one in body["messages"][since:])
        return calls(steps[done]) if done < len(steps) else {"text": "Done."}

    return model


def results(place: Stage) -> str:
    return "\n".join(str(one["content"]) for one in place.server.requests[-1].body["messages"] if one["role"] == "tool")


def test_trust_and_doctor_say_line_by_line_what_does_not_work(place: Stage) -> None:
    told = plain(place.run("trust").text)
    assert ".claude/commands, 23 files" in told and "prime: permits Bash, Read; runs git branch" in told
    assert "hooks of .claude/settings.json: PreToolUse python3 $CLAUDE_PROJECT_DIR/.claude/hooks/guard.py" in told
    doctor = plain(place.run("doctor").text)
    for line in (
        ".claude/output-styles: output styles are not supported",
        "statusLine is ignored",
        "permissions.allow (2 rules) is ignored",
        "permissions.deny Task(x*) is not in effect: nexus does not support this pattern",
        "4 hooks cannot run: no-such-uv was not found",
        "plan_w_team.md: hooks is ignored",
    ):
        assert line in told and line in doctor, line
    assert "plan_w_team.md: has front matter" not in told


def test_its_deny_rules_hold_once_they_are_trusted_and_its_allow_rules_never(place: Stage) -> None:
    write_files(place.folder, {"secrets/key": "hidden words\n"})
    reads = (("read_file", {"path": "secrets/key"}), ("bash", {"command": "curl --version"}))
    place.script(worker(*reads))
    assert place.ask("look").status == 0 and "hidden words" in results(place)
    assert "rule .claude/settings.json: deny Bash(curl:*)" in plain(place.run("trust").text)
    place.script(worker(*reads, ("write_file", {"path": "new", "content": "x"})))
    assert place.ask("look").status == 0
    assert "hidden words" not in results(place) and "Bash(curl" not in results(place), results(place)
    assert "bash(curl *)" in results(place) and not (place.folder / "new").exists(), results(place)
    settings = place.folder / ".claude/settings.json"
    settings.write_text(settings.read_text().replace("Bash(curl:*)", "Bash(wget:*)"))
    assert ".claude/settings.json" in place.run("rules", "list").text
    assert "curl" not in place.run("rules", "list").text and "wget" not in place.run("rules", "list").text


def test_a_path_that_is_denied_is_written_by_no_tool_and_no_program(place: Stage) -> None:
    """`deny Edit(locked/**)`: Claude Code refuses the edit, the new file, the redirect; the sandbox programs too."""
    settings = place.folder / ".claude/settings.json"
    settings.write_text(json.dumps({"permissions": {"deny": ["Edit(locked/**)", "Write(*.lock)"]}}))
    write_files(place.folder, {"locked/b": "first\n"})
    write = "import pathlib; pathlib.Path('{}').write_text('x')"
    place.script(
        worker(
            ("read_file", {"path": "locked/b"}),
            ("edit_file", {"path": "locked/b", "edits": [{"old": "first", "new": "other"}]}),
            ("write_file", {"path": "locked/a", "content": "new"}),
            ("bash", {"command": "echo x > locked/z"}),
            ("bash", {"command": f'python3 -c "{write.format("locked/b")}"'}),
            ("bash", {"command": f'python3 -c "{write.format("new.lock")}"'}),
            ("bash", {"command": "cat locked/b > copy"}),
        )
    )
    assert place.run("trust").status == 0
    done = place.ask("--allow", "run", "--json", "change it")
    assert done.status == 0, done
    assert sorted(os.listdir(place.folder / "locked")) == ["b"] and not (place.folder / "new.lock").exists()
    assert (place.folder / "locked/b").read_text() == (place.folder / "copy").read_text() == "first\n"
    told = results(place)
    assert (
        "deny write_file(locked/**)" in told
        and "the command writes a file covered by deny edit_file(locked/**)" in told
    )
    assert re.search(r"\[sandbox: deny (edit|write)_file\(locked/\*\*\) makes", told)
    assert re.search(r"\[sandbox: new\.lock: removed \(deny (edit|write)_file\(\*\.lock\)\)\]", told)


def test_hooks_guard_a_fix_which_is_taken_back_and_each_lack_is_told_once(place: Stage) -> None:
    assert place.run("trust").status == 0
    edit = {"path": "calc.py", "edits": [{"old": "a - b", "new": "a + b"}]}
    fix = (
        ("bash", {"command": "rm -rf docs"}),
        ("edit_file", edit),
        ("bash", {"command": "python3 test_calc.py"}),
    )
    place.script(worker(*fix))
    done = place.ask("--allow", "run", "make the test pass")
    assert done.status == 0, done
    text = results(place)
    assert "BLOCKED: dangerous rm" in text and "1 passed" in text and (place.folder / "docs").is_dir()
    told = [line for line in done.told if "a hook from .claude/settings.json" in line]
    assert len(told) == 1 and f"{UV}: command not found" in told[0], done.told
    seen = [json.loads(line) for line in (place.folder / "seen.jsonl").read_text().splitlines()]
    assert [one[1] for one in seen] == ["Bash", "Edit", "Bash"], seen
    assert seen[1][2]["file_path"] == str((place.folder / "calc.py").resolve())
    assert (place.folder / "session.log").read_text() == "SessionStart startup\nSessionEnd other\n"
    assert "a + b" in (place.folder / "calc.py").read_text()
    assert place.run("undo").status == 0
    assert (place.folder / "calc.py").read_text() == CALC

    (place.folder / ".claude/hooks/guard.py").write_text(GUARD + "# touched\n")
    place.script(worker(("bash", {"command": "ls"})))
    done = place.ask("--allow", "run", "look")
    assert any("guard.py" in line and "changed since you trusted it; run `nexus trust`" in line for line in done.told)


def test_commands_bring_their_text_their_model_and_the_instructions(place: Stage) -> None:
    assert place.run("trust").status == 0
    place.script(worker())
    done = place.ask("/prime")
    system, user = (str(place.server.requests[-1].body["messages"][at]["content"]) for at in (0, 1))
    assert "Names are whole words." in system and "Tabs." in system
    assert "Branch: main\nRead @README.md" in user and "# Calc" in user
    done = place.ask("/plan_w_team", "'a shop' fast")
    asked = place.server.requests[-1].body
    assert asked["model"] == OTHER.removeprefix("openai/") and "Plan a shop with @agent-builder." in str(asked)
    assert f"/plan_w_team sets model {OTHER}" in "\n".join(done.told)
    done = place.ask("/old")
    assert "old requests model opus" in "\n".join(done.told) and "alias.opus" in "\n".join(done.told), done.told


def test_in_a_session_a_command_s_model_holds_for_its_turn_alone_and_clear_ends_the_session(place: Stage) -> None:
    assert place.run("trust").status == 0
    place.script(worker())
    with Repl.of_stage(place) as repl:
        for words in ("hello", "/plan_w_team shop", "more"):
            repl.say(words)
        text = plain(repl.text)
        assert f"model {OTHER} for /plan_w_team, then" in text and "misses the cache" in text, text
        models = [one.body["model"] for one in place.server.requests]
        assert models[0] == models[2] != models[1] == OTHER.removeprefix("openai/"), models
        repl.send("/clear" + ENTER)
        repl.wait_for(lambda one: "permission level" in one.text, 60)
        repl.say("again")
    log = (place.folder / "session.log").read_text().splitlines()
    assert log[:3] == ["SessionStart startup", "SessionEnd clear", "SessionStart clear"], log
