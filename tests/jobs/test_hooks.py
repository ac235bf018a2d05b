"""The job: somebody moves in with a Claude project: a hook forbids editing migrations, one formats what was edited, one
says at the start what the team agreed on. Untrusted nothing runs; trusted all of it works; a changed script stops.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program.stage import PRICED, QUICK, Stage, calls, stage, until
from programs import need
from project_files import write_files
from search import sample
from server.received import tool_results

from nexus_cli.config.hook_tables import EVENTS

GUARD = """import json, os, sys
given = json.load(sys.stdin)
path = given["tool_input"]["file_path"]
root = os.environ["CLAUDE_PROJECT_DIR"]
open(os.path.join(root, "ran-guard"), "a").write(given["tool_name"] + " " + os.path.relpath(path, root) + chr(10))
if "/migrations/" in path:
    print("Migrations are frozen; add a new one.", file=sys.stderr)
    sys.exit(2)
"""
FORMAT = """import json, sys
given = json.load(sys.stdin)
path = given["tool_input"]["file_path"]
text = open(path).read()
open(path, "w").write(text.rstrip() + chr(10) + "# formatted" + chr(10))
print(json.dumps({"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "formatted " + path}}))
"""
CLAUDE: dict[str, Any] = {
    "hooks": {
        "SessionStart": [{"hooks": [{"type": "command", "command": "echo The team uses tabs; touch ran-start"}]}],
        "PreToolUse": [
            {
                "matcher": "Edit|Write|MultiEdit",
                "hooks": [{"type": "command", "command": 'python3 "$CLAUDE_PROJECT_DIR/.claude/hooks/guard.py"'}],
            }
        ],
        "PostToolUse": [
            {
                "matcher": "Edit|Write",
                "hooks": [{"type": "command", "command": "python3 .claude/hooks/format.py", "timeout": 20}],
            }
        ],
    }
}


class Worker:
    """A model that makes one call a step, and then says what it was told."""

    def __init__(self, *steps: tuple[str, dict[str, Any]]) -> None:
        self.steps = steps

    def __call__(self, body: Any) -> dict[str, Any]:
        since = max(at for at, one in enumerate(body["messages"]) if one["role"] == "user")
        done = sum(one["role"] == "tool" for one in body["messages"][since:])
        return calls(self.steps[done]) if done < len(self.steps) else {"text": "Done."}


def write(path: str, content: str) -> tuple[str, dict[str, Any]]:
    return "write_file", {"path": path, "content": content}


EDITS = Worker(
    write("app.py", "x = 1\n"),
    ("edit_file", {"path": "db/migrations/1.sql", "edits": [{"old": "a", "new": "b"}]}),
)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    need("bwrap")
    with stage(tmp_path, EDITS) as made:
        made.settings(QUICK + PRICED)
        folder = made.folder
        (folder / ".claude" / "hooks").mkdir(parents=True)
        (folder / ".claude" / "hooks" / "guard.py").write_text(GUARD)
        (folder / ".claude" / "hooks" / "format.py").write_text(FORMAT)
        (folder / ".claude" / "settings.json").write_text(json.dumps(CLAUDE))
        (folder / "db" / "migrations").mkdir(parents=True)
        (folder / "db" / "migrations" / "1.sql").write_text("a\n")
        yield made


def asked(place: Stage, number: int = -1) -> str:
    """The newest message of the person in a request."""
    messages = place.server.requests[number].body["messages"]
    return next(str(one["content"]) for one in reversed(messages) if one["role"] == "user")


def adds_at(event: str, text: str) -> str:
    """The command of a hook that adds text at an event."""
    return f"echo '{json.dumps({'hookSpecificOutput': {'hookEventName': event, 'additionalContext': text}})}'"


def ran(place: Stage) -> list[str]:
    return sorted(path.name for path in place.folder.glob("ran-*"))


def personal(place: Stage, *hooks: dict[str, Any]) -> None:
    """Write hooks of the person's own."""
    tables = ("".join(f"{key} = {json.dumps(value)}\n" for key, value in hook.items()) for hook in hooks)
    place.settings(QUICK + PRICED + "".join(f"[[hook]]\n{table}" for table in tables))


def test_a_project_of_claude_works_once_it_is_trusted(place: Stage) -> None:
    done = place.ask("--allow", "edit", "--json", "add x")
    assert done.status == 0 and ran(place) == [], "untrusted nothing runs"
    assert (place.folder / "app.py").read_text() == "x = 1\n" and "b" in (
        place.folder / "db/migrations/1.sql"
    ).read_text()
    (place.folder / "db/migrations/1.sql").write_text("a\n")
    (place.folder / "app.py").unlink()

    assert place.run("trust", stdin=b"y\n").status == 0
    done = place.ask("--allow", "edit", "--json", "add x")
    assert done.status == 0, done
    assert ran(place) == ["ran-guard", "ran-start"]
    assert (place.folder / "ran-guard").read_text() == "Write app.py\nEdit db/migrations/1.sql\n"
    assert (place.folder / "db/migrations/1.sql").read_text() == "a\n"
    assert (place.folder / "app.py").read_text() == "x = 1\n# formatted\n"
    wrote, refused = place.results
    assert "[hook python3 .claude/hooks/format.py: formatted " in wrote, wrote
    assert "not permitted: hook python3 .claude/hooks/guard.py" in refused
    assert "Migrations are frozen; add a new one." in refused
    assert [one["subject"] for one in done.result["denied"]] == ["db/migrations/1.sql"]
    assert "The team uses tabs" in asked(place)
    sections = place.run("context", "--step", "1", "--json").result["sections"]
    (section,) = [one for one in sections if one["id"] == "hooks.SessionStart"]
    assert section["source"] == ".claude/settings.json"
    rows = [row for row in place.run("timeline", "--json").result["rows"] if row["kind"] == "hook"]
    assert len(rows) == 4 and all(row["seconds"] > 0 for row in rows), rows
    assert "PreToolUse" in rows[1]["text"] and "Migrations are frozen" in rows[3]["why"]
    assert place.run("replay").status == 0
    back = place.run("undo", "--json").result
    assert back["removed"] == ["app.py"] and not back["kept"], "the formatter's change is part of the edit"

    (place.folder / ".claude" / "hooks" / "guard.py").write_text(GUARD + "# harmless?\n")
    (place.folder / "ran-guard").unlink()
    done = place.ask("--allow", "edit", "--json", "again")
    assert done.status == 0 and not (place.folder / "ran-guard").exists()
    changed = [line for line in done.told if "changed since you trusted it; run `nexus trust`" in line]
    assert any("guard.py" in line for line in changed), done.told
    assert "b" in (place.folder / "db/migrations/1.sql").read_text()


def test_hooks_are_listed_with_their_source_and_state(place: Stage) -> None:
    personal(place, {"event": "Stop", "command": "true"})
    listed = place.run("status", "--json").result["hooks"]
    assert [(one["source"], one["state"]) for one in listed] == [
        ("config.toml", "active"),
        *[(".claude/settings.json", "not trusted")] * 3,
    ]
    assert "1 active; 3 not trusted" in place.run("status").text
    odd = {"PreToolUse": [{"matcher": "(", "hooks": [{"command": "true"}, {"type": "prompt", "prompt": "x"}]}]}
    (place.folder / ".claude" / "settings.json").write_text(json.dumps({"hooks": odd}))
    assert place.run("trust", stdin=b"y\n").status == 0
    listed = place.run("status", "--json").result["hooks"][1:]
    assert [one["state"] for one in listed] == ["not supported"] * 2, listed
    assert "not a regular expression" in listed[0]["why"] and "only command" in listed[1]["why"]
    done = place.ask("--allow", "edit", "go")
    assert done.status == 0 and sum("is off" in line for line in done.told) == 2, done.told


def test_a_trusted_file_of_hooks_that_is_broken_is_told_wherever_hooks_are_shown(place: Stage) -> None:
    assert place.run("trust", stdin=b"y\n").status == 0
    (place.folder / ".claude" / "settings.json").write_text(json.dumps(CLAUDE)[:-2])
    why = ".claude/settings.json is not valid JSON: nexus ignores its hooks"
    done = place.ask("--allow", "edit", "go")
    assert done.status == 0 and sum("is off" in line and why in line for line in done.told) == 3, done.told
    assert [one["state"] for one in place.run("status", "--json").result["hooks"]] == ["changed"] * 3
    (check,) = [one for one in place.run("doctor", "--json").result["checks"] if one["name"] == "hooks"]
    assert check["status"] == "note" and why in check["detail"]
    assert check["hint"] == "`nexus hooks` lists all hooks", "each reason says what to do"
    assert why in " ".join(place.run("trust", stdin=b"n\n").text.split())


def test_a_hook_that_does_harm_harms_one_call(place: Stage) -> None:
    """It forks, prints 60 MB, ignores TERM, or hangs: its processes end, the turn goes on, and it is told once."""
    fork = "(trap '' TERM; sleep 777 & sleep 777) & echo $! > ran-fork"
    flood = "head -c 60000000 /dev/zero | tr '\\0' x; head -c 60000000 /dev/zero | tr '\\0' y >&2; exit 1"
    deaf = "trap '' TERM; while :; do sleep 0.1; done"
    pre = {"event": "PreToolUse", "matcher": "write_file"}
    personal(
        place,
        {**pre, "command": fork},
        {**pre, "command": flood},
        {**pre, "command": deaf, "timeout": 1},
        {**pre, "command": "/no/such/program"},
        {**pre, "command": "yes in a traceback | head -n 50 >&2; echo the cause >&2; exit 3"},
        {**pre, "command": """echo '{"hookSpecificOutput": {"updatedToolOutput": "x"}}'"""},
        {**pre, "command": "echo no JSON {"},
        {**pre, "command": "printf '{broken'"},
        {**pre, "command": "printf '[1]'; printf '\\377\\376'"},
    )
    place.script(Worker(write("a.txt", "1\n"), write("b.txt", "2\n")))
    done = place.ask("--allow", "edit", "--json", "write")
    assert done.status == 0 and (place.folder / "b.txt").exists(), done
    told_of = [line for line in done.told if "nexus: hook " in line]
    assert [line for line in done.told if "nexus does not read updatedToolOutput" in line], done.told
    assert len(told_of) == 5 and any("exit 3: the cause" in line for line in told_of), told_of
    assert any("exit 1: yyy" in line for line in told_of) and any("timed out after 1 s" in line for line in told_of)
    assert any("could not be started" in line for line in told_of) and max(map(len, told_of)) < 500
    pid = int((place.folder / "ran-fork").read_text())
    assert until(lambda: not os.path.exists(f"/proc/{pid}"), 10)
    assert not any("yyy" in one or "xxx" in one for one in place.results)


INPUTS = """
{..."hook_event_name":"SessionStart","source":"startup"}
{...,P,M,"hook_event_name":"UserPromptSubmit","prompt":"do it ü"}
{...,P,M,"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"echo hü > out; cat out"},"tool_use_id":"ID"}
{...,P,M,"hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"command":"echo hü > out; cat out"},"tool_response":{"stdout":"hü","stderr":"","interrupted":false,"isImage":false,"noOutputExpected":false},"tool_use_id":"ID","duration_ms":N}
{...,P,M,"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"echo no >&2; exit 3"},"tool_use_id":"ID"}
{...,P,M,"hook_event_name":"PostToolUseFailure","tool_name":"Bash","tool_input":{"command":"echo no >&2; exit 3"},"tool_use_id":"ID","error":"Exit code 3\\nno","is_interrupt":false,"duration_ms":N}
{...,P,M,"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"grep zzz a.txt"},"tool_use_id":"ID"}
{...,P,M,"hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"command":"grep zzz a.txt"},"tool_response":{"stdout":"","stderr":"","interrupted":false,"isImage":false,"returnCodeInterpretation":"No matches found","noOutputExpected":false},"tool_use_id":"ID","duration_ms":N}
{...,P,M,"hook_event_name":"PreToolUse","tool_name":"Read","tool_input":{"file_path":"TREE/a.txt","offset":2,"limit":3},"tool_use_id":"ID"}
{...,P,M,"hook_event_name":"PostToolUse","tool_name":"Read","tool_input":{"file_path":"TREE/a.txt","offset":2,"limit":3},"tool_response":{"type":"text","file":{"filePath":"TREE/a.txt","content":"two\\nthree\\nfour","numLines":3,"startLine":2,"totalLines":6}},"tool_use_id":"ID","duration_ms":N}
{...,P,M,"hook_event_name":"PreToolUse","tool_name":"Edit","tool_input":{"file_path":"TREE/a.txt","old_string":"two","new_string":"zwei","replace_all":false},"tool_use_id":"ID"}
{...,P,M,"hook_event_name":"PostToolUse","tool_name":"Edit","tool_input":{"file_path":"TREE/a.txt","old_string":"two","new_string":"zwei","replace_all":false},"tool_response":{"filePath":"TREE/a.txt","oldString":"two","newString":"zwei","originalFile":"one\\ntwo\\nthree\\nfour\\nfive\\n","structuredPatch":[{"oldStart":1,"oldLines":5,"newStart":1,"newLines":5,"lines":[" one","-two","+zwei"," three"," four"," five"]}],"userModified":false,"replaceAll":false},"tool_use_id":"ID","duration_ms":N}
{...,P,M,"hook_event_name":"PreToolUse","tool_name":"Write","tool_input":{"file_path":"TREE/b.txt","content":"new\\n"},"tool_use_id":"ID"}
{...,P,M,"hook_event_name":"PostToolUse","tool_name":"Write","tool_input":{"file_path":"TREE/b.txt","content":"new\\n"},"tool_response":{"type":"create","filePath":"TREE/b.txt","content":"new\\n","structuredPatch":[],"originalFile":null,"userModified":false},"tool_use_id":"ID","duration_ms":N}
{...,P,M,"hook_event_name":"Stop","stop_hook_active":false,"last_assistant_message":"Done.","background_tasks":[],"session_crons":[]}
{...,P,"hook_event_name":"SessionEnd","reason":"other"}
"""  # noqa: E501
"""What Claude Code 2.1.330 writes for these calls (`tests/parity`); `...`, P and M stand for what is in each."""


def test_the_input_of_a_hook_is_what_claude_code_writes_byte_for_byte(place: Stage) -> None:
    entry = [{"hooks": [{"type": "command", "command": 'cat >> "$CLAUDE_PROJECT_DIR/seen.log"'}]}]
    settings = place.folder / ".claude" / "settings.json"
    events = [event for event in EVENTS if event != "PostToolBatch"]  # which has the words of our results
    settings.write_text(json.dumps({"hooks": dict.fromkeys(events, entry)}))
    assert place.run("trust", stdin=b"y\n").status == 0
    (place.folder / "a.txt").write_text("one\ntwo\nthree\nfour\nfive\n")
    place.script(
        Worker(
            bash("echo hü > out; cat out"),
            bash("echo no >&2; exit 3"),
            bash("grep zzz a.txt"),
            ("read_file", {"path": "a.txt", "offset": 2, "limit": 3}),
            ("edit_file", {"path": "a.txt", "edits": [{"old": "two", "new": "zwei"}]}),
            write("b.txt", "new\n"),
        )
    )
    done = place.ask("--allow", "all", "--json", "do it ü")
    assert done.status == 0, done
    tree, session = os.path.realpath(place.folder), done.result["session"]
    seen = (place.folder / "seen.log").read_bytes().decode()
    paths = set(re.findall(r'"transcript_path":"([^"]+)"', seen))
    assert len(paths) == 1 and Path(paths.pop()).name == f"{session}.jsonl", seen
    for pattern, stands in (
        (r'"session_id":"[^"]*","transcript_path":"[^"]*","cwd":"[^"]*",', "...,"),
        (r"\{\.\.\.,\"hook", '{..."hook'),
        (r'"prompt_id":"[0-9a-f-]{36}"', "P"),
        (r'"permission_mode":"bypassPermissions"', "M"),
        (r'"tool_use_id":"[^"]*"', '"tool_use_id":"ID"'),
        (r'"duration_ms":\d+', '"duration_ms":N'),
    ):
        seen = re.sub(pattern, stands, seen)
    found = seen.replace(tree, "TREE").splitlines()
    assert found == INPUTS.strip().splitlines()


def test_a_hook_that_greps_its_input_guards_and_one_that_logs_keeps_its_trust(place: Stage) -> None:
    """Such lines are in public repositories: they were without effect, and the second one once it had logged."""
    write_files(place.home, {".claude/CLAUDE.md": "Mine.\n"})
    guard = 'tee -a hook.log | grep -q \'"command":"touch ü\' && { echo not that >&2; exit 2; }; exit 0'
    logger = (
        "cat ~/.claude/CLAUDE.md >> .claude/mine.log && echo ran >> ~/.claude/log.txt; echo x > .claude/settings.json"
    )
    entries = [{"type": "command", "command": one, "shell": "bash"} for one in (guard, logger)]
    settings = place.folder / ".claude" / "settings.json"
    settings.write_text(text := json.dumps({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": entries}]}}))
    assert place.run("trust", stdin=b"y\n").status == 0
    place.script(Worker(bash("touch first"), bash("touch ü"), bash("touch last")))
    done = place.ask("--allow", "run", "--json", "touch")
    assert done.status == 0 and "not that" in place.results[1], (
        place.results,
        done.told,
    )
    made = {name for name in ("first", "ü", "last") if (place.folder / name).exists()}
    assert made == {"first", "last"} and "changed since" not in " ".join(done.told), (made, done.told)
    assert (place.folder / "hook.log").read_text().count("\n") == 3
    assert (place.folder / ".claude" / "mine.log").read_text() == "Mine.\n" * 3
    assert settings.read_text() == text and not (place.home / ".claude" / "log.txt").exists()
    (kept,) = (place.nexus_home / "cache" / "claude").glob("*/log.txt")
    assert kept.read_text() == "ran\n" * 3, "in a folder of the project's own"


def test_a_hook_reads_the_transcript_as_claude_code_keeps_one(place: Stage) -> None:
    script = (
        "import json, sys\npath = json.load(sys.stdin)['transcript_path']\nprint(open(path).read(), file=sys.stderr)\n"
    )
    (place.folder / ".claude" / "hooks" / "guard.py").write_text(script + "sys.exit(2)\n")
    stop = 'path=$(grep -o \'/[^"]*jsonl\'); tail -n 1 "$path" > last.jsonl'
    hooks = {
        "PreToolUse": [{"hooks": [{"type": "command", "command": "python3 .claude/hooks/guard.py"}]}],
        "Stop": [{"hooks": [{"type": "command", "command": stop}]}],
    }
    (place.folder / ".claude" / "settings.json").write_text(json.dumps({"hooks": hooks}))
    assert place.run("trust", stdin=b"y\n").status == 0
    place.script(Worker(bash("echo one")))
    assert place.ask("--allow", "run", "say one").status == 0
    last = json.loads((place.folder / "last.jsonl").read_text())
    assert (last["type"], last["message"]["content"]) == ("assistant", [{"type": "text", "text": "Done."}])
    assert "say one" in place.results[0] and '"name":"bash","input":{"command":"echo one"}' in place.results[0]


def test_on_timeout_deny_is_never_skipped(place: Stage) -> None:
    pre = {"event": "PreToolUse", "matcher": "Write", "on_timeout": "deny"}
    for command, why in (("sleep 60", "timed out after"), ("/no/such/program", "could not be started")):
        personal(place, {**pre, "command": command, "timeout": 0.5})
        place.script(Worker(write("a.txt", "1\n")))
        assert place.ask("--allow", "edit", "write").status == 0
        assert why in place.results[-1] and not (place.folder / "a.txt").exists(), place.results
    personal(place)
    own = '[[hook]]\ncommand = "python3 .claude/hooks/guard.py"\n'
    own += "".join(f"{key} = {json.dumps(value)}\n" for key, value in pre.items())
    (place.folder / ".claude" / "settings.json").unlink()
    write_files(place.folder, {".nexus/config.toml": own})
    assert place.run("trust", stdin=b"y\n").status == 0
    (place.folder / ".claude" / "hooks" / "guard.py").write_text("")
    assert place.ask("--allow", "edit", "write").status == 0
    assert "changed since you trusted it" in place.results[-1] and not (place.folder / "a.txt").exists()
    (place.folder / ".claude" / "hooks" / "guard.py").write_text(GUARD)
    assert place.ask("--allow", "edit", "write").status == 0
    assert "KeyError" not in place.results[-1] and "file_path" not in place.results[-1]
    assert (place.folder / "a.txt").exists(), place.results


def bash(command: str) -> tuple[str, dict[str, Any]]:
    return "bash", {"command": command}


SPOIL = "echo 'import os; os.system(\"touch ran-forged\")' > .claude/hooks/guard.py"


@pytest.mark.parametrize(
    ("spoil", "why"),
    sample(
        [
            (SPOIL, "guard.py has changed"),
            (
                f"cp -p .claude/hooks/guard.py old && {SPOIL} && touch -r old .claude/hooks/guard.py",
                "guard.py has changed",
            ),
            ("rm .claude/hooks/guard.py && mkfifo .claude/hooks/guard.py", "guard.py does not exist or is not a"),
            ("rm .claude/hooks/guard.py && mkdir .claude/hooks/guard.py", "guard.py does not exist or is not a"),
            ("rm .claude/hooks/guard.py && ln -s /bin/true .claude/hooks/guard.py", "guard.py has changed"),
            ("truncate -s 900G .claude/hooks/guard.py", "guard.py has changed"),
            (
                "sed -i s/guard.py/other.py/ .claude/settings.json && touch .claude/hooks/other.py",
                "changed since you trusted it",
            ),
            (
                "sed -i 's/guard.py/guard.py || touch ran-forged; true/' .claude/settings.json",
                "changed since you trusted it",
            ),
            ("echo '{}' > .claude/settings.json", "changed since you trusted it"),
            ("rm .claude/settings.json", "changed since you trusted it"),
            ("printf '\\0{' > .claude/settings.json", "is not valid JSON"),
        ],
        4,
    ),
)
def test_what_a_model_changes_in_its_turn_stops_a_hook_at_its_next_call(place: Stage, spoil: str, why: str) -> None:
    """The hook that guarded is not run in another form, nor left out in silence: what it guards is refused."""
    guard = CLAUDE["hooks"]["PreToolUse"][0]["hooks"][0] | {"on_timeout": "deny"}
    hooks = {"PreToolUse": [{"matcher": "Write", "hooks": [guard]}]}
    (place.folder / ".claude" / "settings.json").write_text(json.dumps({"hooks": hooks}))
    assert place.run("trust", stdin=b"y\n").status == 0
    place.script(Worker(write("a.txt", "1\n"), bash(spoil), write("b.txt", "2\n")))
    done = place.ask("--allow", "all", "--json", "write")
    assert done.status == 0 and (place.folder / "ran-guard").read_text() == "Write a.txt\n", done
    assert not (place.folder / "ran-forged").exists() and not (place.folder / "b.txt").exists()
    assert why in place.results[2] and any(why in line for line in done.told), (
        place.results,
        done.told,
    )


def test_a_hook_of_a_trust_that_is_revoked_in_the_turn_runs_no_more(place: Stage) -> None:
    assert place.run("trust", stdin=b"y\n").status == 0
    record = place.nexus_home / "data" / "trust.json"
    place.script(Worker(write("a.txt", "1\n"), bash(f"mv {record} {record}.old"), write("b.txt", "2\n")))
    assert place.ask("--allow", "all", "write").status == 0
    assert (place.folder / "ran-guard").read_text() == "Write a.txt\n" and (place.folder / "b.txt").exists()


def test_a_script_that_was_not_there_is_run_by_no_hook_until_it_is_trusted(place: Stage) -> None:
    command = "if [ -f .claude/hooks/more.sh ]; then sh .claude/hooks/more.sh; fi"
    hooks = {"PreToolUse": [{"hooks": [{"type": "command", "command": command}]}]}
    (place.folder / ".claude" / "settings.json").write_text(json.dumps({"hooks": hooks}))
    assert place.run("trust", stdin=b"y\n").status == 0
    place.script(Worker(bash("echo 'touch ran-forged' > .claude/hooks/more.sh"), write("b.txt", "2\n")))
    done = place.ask("--allow", "all", "write")
    assert not ran(place) and any("more.sh has changed" in line for line in done.told), done.told


def test_a_hook_that_was_removed_is_named_until_that_is_trusted(place: Stage) -> None:
    assert place.run("trust", stdin=b"y\n").status == 0
    (place.folder / ".claude" / "settings.json").write_text("{}")
    listed = place.run("status", "--json").result["hooks"]
    assert [one["state"] for one in listed] == ["changed"] * 3
    (place.folder / ".claude" / "settings.json").unlink()
    done = place.ask("--allow", "edit", "add x")
    assert sum("changed since you trusted it; run `nexus trust`" in line for line in done.told) == 3, done.told
    assert place.run("trust", stdin=b"y\n").status == 0
    assert place.run("status", "--json").result["hooks"] == []
    assert not any("hook" in line for line in place.ask("--allow", "edit", "add x").told)


def test_hooks_and_rules_that_git_ignores_hold_in_every_worktree(place: Stage) -> None:
    """In one of the person and in one of a worker, also after the worker has emptied its copy of the settings."""
    log = {"matcher": "Bash", "hooks": [{"type": "command", "command": "sh .claude/log.sh"}]}
    guards = {"PreToolUse": [*CLAUDE["hooks"]["PreToolUse"], log]}
    (place.folder / ".claude/log.sh").write_text("echo logged > log.txt\n")
    settings = {"hooks": guards, "permissions": {"deny": ["Bash(rm -rf *)", "Read(./docs/key)"]}}
    (place.folder / ".claude/settings.json").write_text(json.dumps(settings))
    (place.folder / ".claude/hooks/guard.py").write_text(f"import shared\n{GUARD}")
    (place.folder / ".claude/hooks/shared.py").touch()
    write_files(place.folder, {"docs/a.md": "a\n", "docs/key": "key\n", ".gitignore": ".claude/\n__pycache__/\n"})
    for words in ("init -q", "add .", "-c user.name=A -c user.email=a@example.org commit -qm first"):
        subprocess.run(["git", *words.split()], cwd=place.folder, check=True)
    assert place.run("trust", stdin=b"y\n").status == 0
    steps = (
        ("read_file", {"path": "docs/key"}),
        bash("echo '{\"disableAllHooks\": true}' > .claude/settings.json"),
        bash("rm -rf docs"),
        ("edit_file", {"path": "db/migrations/1.sql", "edits": [{"old": "a", "new": "b"}]}),
        bash("cat docs/a.md db/migrations/1.sql log.txt"),
    )
    results: list[list[str]] = []
    work = Worker(*steps)

    def model(body: Any) -> dict[str, Any]:
        tools = tool_results(body)
        if not any("TASK" in str(one["content"]) for one in body["messages"] if one["role"] == "user"):
            return {"text": "Done."} if tools else calls(("agent", {"task": "TASK", "worktree": True}))
        results.append(tools)
        return work(body)

    place.script(model)
    for prompt in (("-w", "side", "TASK"), ("-w", "side", "TASK again"), ("delegate",)):
        done = place.ask("--allow", "all", "--json", *prompt)
        assert done.status == 0 and not any("is off" in line for line in done.told), done.told
        unread, _, denied, guarded, shown = results[-1]
        assert unread.startswith("not permitted: deny read_file(./docs/key)"), unread
        assert denied.startswith("not permitted: deny bash(rm -rf *)") and "/.claude/settings.json)" in denied, denied
        assert "Migrations are frozen" in guarded and shown.startswith("a\na\nlogged\n"), (guarded, shown)


def answer(**value: Any) -> str:
    """The command of a hook that answers with this JSON."""
    return f"cat > /dev/null; echo '{json.dumps(value)}'"


def output(event: str, **value: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, **value}}


def test_only_a_personal_hook_allows_and_changes_and_none_lifts_a_rule(place: Stage) -> None:
    allow = output("PreToolUse", permissionDecision="allow", updatedInput={"path": "other.txt", "content": "2\n"})
    theirs = {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": answer(**allow)}]}]}}
    (place.folder / ".claude" / "settings.json").write_text(json.dumps(theirs))
    assert place.run("trust", stdin=b"y\n").status == 0
    place.script(Worker(write("a.txt", "1\n")))
    done = place.ask("--allow", "ask", "--json", "write")
    assert "not permitted: the call changes files" in place.results[-1] and not (place.folder / "a.txt").exists()
    assert any("a project's hook cannot allow a call or change its input" in line for line in done.told), done.told
    (place.folder / ".claude" / "settings.json").unlink()

    personal(place, {"event": "PreToolUse", "command": answer(**allow)})
    assert place.ask("--allow", "ask", "--json", "write").result["denied"] == []
    assert (place.folder / "other.txt").read_text() == "2\n" and not (place.folder / "a.txt").exists()
    assert "the input of this call was changed to" in place.results[-1], place.server.requests[-1].results
    personal(place, {"event": "PermissionRequest", "command": answer(**output("", decision={"behavior": "allow"}))})
    assert place.ask("--allow", "ask", "--json", "write").result["denied"] == []
    assert (place.folder / "a.txt").exists()

    for path, rules in ((".git/config", ""), ("b.txt", '[rules]\ndeny = ["write_file(b.txt)"]\n')):
        allow = output("PreToolUse", permissionDecision="allow", updatedInput={"path": path, "content": "x"})
        personal(place, {"event": "PreToolUse", "command": answer(**allow)})
        settings = place.nexus_home / "config" / "config.toml"
        settings.write_text(settings.read_text() + rules)
        assert len(place.ask("--allow", "edit", "--json", "write").result["denied"]) == 1, place.server.requests[
            -1
        ].results
        assert not (place.folder / path).exists()
    allow = output("PreToolUse", updatedInput={"path": 5, "content": "x", "mode": "x"})
    personal(place, {"event": "PreToolUse", "command": answer(**allow)})
    assert place.ask("--allow", "edit", "--json", "write").status == 0
    assert "it returned an invalid tool input" in place.results[-1], place.server.requests[-1].results


def test_a_hook_that_asks_is_refused_where_nobody_can_be_asked(place: Stage) -> None:
    ask = output("PreToolUse", permissionDecision="ask", permissionDecisionReason="look first")
    personal(place, {"event": "PreToolUse", "matcher": "Bash", "command": answer(**ask)})
    place.script(Worker(("bash", {"command": "ls"}), write("a.txt", "1\n")))
    done = place.ask("--allow", "auto", "--json", "go")
    listed, wrote = place.results
    assert "asks for your decision: look first, and nobody here can approve it" in listed, listed
    assert (place.folder / "a.txt").exists() and len(done.result["denied"]) == 1, wrote


def test_a_prompt_is_refused_or_gets_text_and_a_turn_goes_on_three_times(place: Stage) -> None:
    place.environment["DEPLOY_TOKEN"] = "ghp_" + "a1B2" * 9
    guard = "grep -q secret && { echo no secrets here >&2; exit 2; }; echo $DEPLOY_TOKEN; "
    guard += "head -c 12000 /dev/zero | tr '\\0' z"
    stop = "cat > ran-stop; echo run the tests >&2; exit 2"
    end = "cat > ran-end"
    personal(
        place,
        {"event": "UserPromptSubmit", "command": guard},
        {"event": "Stop", "command": stop},
        {"event": "SessionEnd", "command": end},
    )
    place.script(Worker())
    done = place.ask("--json", "the secret")
    assert done.status == 3 and done.kind == "denied" and not place.server.requests, done
    assert "no secrets here" in done.result["error"]["message"], done.result["error"]
    assert "ran-end" in ran(place) and json.loads((place.folder / "ran-end").read_text())["reason"] == "other"
    done = place.ask("--json", "hello")
    assert done.status == 0 and done.result["steps"] == 4, done
    newest = place.server.requests[-1].body["messages"][-1]["content"].split("\n\n")
    assert newest[-1].startswith("[hook cat > ran-stop;"), "behind the clock, if a minute has ended"
    assert b"continues the turn: run the tests" in done.stderr
    assert json.loads((place.folder / "ran-stop").read_text())["stop_hook_active"] is True
    text = asked(place, 0)
    assert "ghp_" not in text and "z" * 9000 in text and "z" * 10_000 not in text and "recall d1" in text
    assert [drop["cause"] for drop in done.result["drops"]] == ["output_cap"]
    personal(place, {"event": "Stop", "command": answer(**{"continue": False, "stopReason": "enough"})})
    assert place.ask("--json", "hello").status == 0


def test_hooks_of_a_guide_and_of_a_step_refuse_and_add(place: Stage) -> None:
    commands = place.folder / ".claude" / "commands"
    commands.mkdir()
    for name in ("ship", "help-me"):
        (commands / f"{name}.md").write_text("GUIDE of $ARGUMENTS.\n")
    see, stop = command_hook('cat >> "$CLAUDE_PROJECT_DIR/seen.log"'), command_hook("echo no more >&2; exit 2")
    adds = {event: command_hook(adds_at(event, f"AT {event}")) for event in ("UserPromptExpansion", "PostToolBatch")}
    trusted(place, {"hooks": {event: [{"hooks": [see, hook]}] for event, hook in adds.items()}})
    place.script(Worker(("read_file", {"path": "db/migrations/1.sql"}), bash("ls nothere")))
    done = place.ask("--allow", "run", "--json", "/ship it now")
    assert done.status == 0 and "AT UserPromptExpansion" in asked(place, 0) and "GUIDE of it now" in asked(place, 0)
    last = str(place.server.requests[1].body["messages"][-1])
    assert "[nexus: hook " in last and ": AT PostToolBatch]" in last, last
    seen = [json.loads(line) for line in (place.folder / "seen.log").read_text().splitlines()]
    guide, read, failed = seen
    own = "expansion_type command_name command_args command_source prompt"
    assert {key: guide[key] for key in own.split()} == {
        "expansion_type": "slash_command",
        "command_name": "ship",
        "command_args": "it now",
        "command_source": "projectSettings",
        "prompt": "/ship it now",
    }
    assert [*read["tool_calls"][0]] == ["tool_name", "tool_input", "tool_use_id", "tool_response"]
    assert read["tool_calls"][0]["tool_name"] == "Read" and read["tool_calls"][0]["tool_response"] == "a"
    assert failed["tool_calls"][0]["tool_response"].startswith("Exit code 2\n"), failed
    again = place.ask("-c", "hello")
    assert again.status == 0 and asked(place).count("AT UserPromptExpansion") == 0, "it belongs to its message"

    refuses: dict[str, Any] = {event: [{"matcher": "ship", "hooks": [stop]}] for event in adds}
    trusted(place, {"hooks": refuses}, bash("true"))
    requests = len(place.server.requests)
    for words in ("/ship it now", "please $ship"):
        refused = place.ask("--json", words)
        assert refused.status == 3 and "no more" in refused.result["error"]["message"], refused
    assert len(place.server.requests) == requests
    ended = place.ask("--json", "--allow", "run", "/help-me")
    assert ended.status == 3 and "no more" in ended.result["error"]["message"], ended
    assert len(place.server.requests) == requests + 1, "the turn ends after its first step"


def test_hooks_that_say_nothing_change_no_byte_of_a_request(place: Stage) -> None:
    sent = []
    for hooks in ((), tuple({"event": event, "command": "cat > /dev/null"} for event in EVENTS)):
        personal(place, *hooks)
        place.script(Worker(("read_file", {"path": "db/migrations/1.sql"})))
        assert place.ask("--json", "read").status == 0
        sent.append(
            [json.dumps(one.body["messages"][0]) + json.dumps(one.body["tools"]) for one in place.server.requests]
        )
        place.server.requests.clear()
    assert sent[0] == sent[1]


def command_hook(command: str, **keys: Any) -> dict[str, Any]:
    return {"type": "command", "command": command, **keys}


def trusted(place: Stage, settings: dict[str, Any], *steps: tuple[str, dict[str, Any]]) -> None:
    """Trust these settings of Claude, and let the model make these calls."""
    (place.folder / ".claude" / "settings.json").write_text(json.dumps(settings))
    assert place.run("trust", stdin=b"y\n").status == 0
    place.script(Worker(*steps))


def test_of_hooks_with_a_condition_each_runs_for_its_calls_alone(place: Stage) -> None:
    log = place.folder / "runs"
    hooks = [
        command_hook("echo touch >> runs", **{"if": "Bash(touch *)"}),
        command_hook("echo glued >> runs", **{"if": "Bash(touch o*)"}),
        command_hook("echo src >> runs", **{"if": "Write(src/**)"}),
        command_hook("echo ran >> runs", **{"if": "Bash(unclosed"}),
        command_hook("echo once >> runs", once=True),
    ]
    groups = [
        {"hooks": hooks},
        {"matcher": "Bash", "hooks": hooks[4:]},
        {"matcher": "bash", "hooks": [command_hook("touch no")]},
    ]
    steps = bash("true && touch one"), bash("true"), write("src/a", "x\n"), write("b", "x\n")
    trusted(place, {"hooks": {"PreToolUse": groups}}, *steps)
    done = place.ask("--allow", "run", "touch")
    assert done.status == 0 and sum('its `if` "Bash(unclosed" is not supported' in line for line in done.told) == 1, (
        done
    )
    runs = log.read_text().split()
    assert sorted(runs) == sorted(["touch", "glued", "src", *["once"] * 4]), "the same command in two places runs once"
    assert not (place.folder / "no").exists(), "names of tools have their case"


def test_nothing_waits_for_an_asynchronous_hook_and_what_it_adds_comes_later(place: Stage) -> None:
    later = 'cat > /dev/null; while [ ! -e second ]; do sleep 0.1; done; echo \'{"hookSpecificOutput": '
    later += '{"hookEventName": "PreToolUse", "additionalContext": "LATE"}}\'; touch ended'
    wait = "echo > second; while [ ! -e ended ]; do sleep 0.1; done; sleep 1"
    groups = [{"matcher": "Bash", "hooks": [command_hook(later, **{"async": True, "if": "Bash(touch *)"})]}]
    refuses = [{"matcher": "Write", "hooks": [command_hook("exit 2", **{"async": True})]}]
    steps = bash("touch first"), bash(wait), write("b", "x\n"), bash("sleep 1")
    trusted(place, {"hooks": {"PreToolUse": groups + refuses}}, *steps)
    done = place.ask("--allow", "run", "touch")
    assert done.status == 0 and (place.folder / "b").exists(), done
    first, *others = place.results
    assert "LATE" not in first and "".join(others).count("LATE]") == 1, place.results


def test_a_hook_of_the_start_sets_variables_for_sandboxed_commands_alone(place: Stage) -> None:
    """Outside of the sandbox what the project says would run with the person's rights."""
    line = 'echo "export TEAM=\'the a team\' LD_LIBRARY_PATH=$PWD; PATH=$PATH:/opt/mine" >> "$CLAUDE_ENV_FILE"'
    show = bash('echo "$TEAM, $PATH" > shown; echo "$CLAUDE_ENV_FILE$LD_LIBRARY_PATH" >> shown')
    trusted(place, {"hooks": {"SessionStart": [{"hooks": [command_hook(line)]}]}}, show, bash("echo $TEAM"))
    assert place.ask("--allow", "run", "show").status == 0
    shown = (place.folder / "shown").read_text().splitlines()
    assert shown[0].startswith("the a team, ") and shown[0].endswith(":/opt/mine") and shown[1] == "", shown
    assert place.results[1].startswith("the a team\n"), "a command that only reads has them too"
    assert place.ask("--allow", "all", "show").status == 0
    assert (place.folder / "shown").read_text().startswith(", ")
    (place.folder / ".claude" / "settings.json").unlink()
    place.run("trust", "--revoke")
    personal(place, {"event": "SessionStart", "command": line})
    assert place.ask("--allow", "all", "show").status == 0
    assert (place.folder / "shown").read_text().startswith("the a team, "), "the person's own hold everywhere"


@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
def test_hooks_that_the_project_has_switched_off_do_not_run_and_are_named(place: Stage, name: str) -> None:
    (place.folder / ".claude" / "settings.json").write_text(json.dumps(CLAUDE))
    settings = place.folder / ".claude" / name
    value = json.loads(settings.read_text()) if settings.exists() else {}
    settings.write_text(json.dumps(value | {"disableAllHooks": True}))
    assert place.run("trust", stdin=b"y\n").status == 0
    done = place.ask("--allow", "edit", "add x")
    assert done.status == 0 and ran(place) == [], done
    assert any("is off: .claude/" in line and "sets disableAllHooks" in line for line in done.told), done.told
    rows = place.run("hooks", "--json").result["hooks"]
    assert {row["state"] for row in rows} == {"not supported"}


def test_hooks_of_an_agent_know_it_and_may_add_to_its_start_and_send_it_on(place: Stage) -> None:
    (place.folder / ".claude" / "agents").mkdir()
    agent = "---\nname: reviewer\ndescription: Reviews.\n---\nYou are the REVIEWER.\n"
    (place.folder / ".claude" / "agents" / "reviewer.md").write_text(agent)
    see = 'cat >> "$CLAUDE_PROJECT_DIR/seen.log"'
    adds = 'echo \'{"hookSpecificOutput": {"hookEventName": "SubagentStart", "additionalContext": "BE KIND"}}\''
    again = "[ -e again ] || { touch again; echo look again >&2; exit 2; }"
    hooks = {
        "SubagentStart": [{"matcher": "reviewer", "hooks": [command_hook(see), command_hook(adds)]}],
        "SubagentStop": [
            {"hooks": [command_hook(see), command_hook(again)]},
            {"matcher": "other", "hooks": [command_hook("touch other")]},
        ],
        "PreToolUse": [{"matcher": "Bash", "hooks": [command_hook(see)]}],
        "Stop": [{"hooks": [command_hook("touch stopped")]}],
        "PreCompact": [{"hooks": [{"type": "prompt", "prompt": "x"}]}],
    }
    trusted(place, {"hooks": hooks})
    bodies: list[Any] = []

    def model(body: Any) -> dict[str, Any]:
        if "REVIEWER" not in str(body["messages"]):
            done = any(one["role"] == "tool" for one in body["messages"])
            return {"text": "Done."} if done else calls(("agent", {"task": "TASK", "recipe": "reviewer"}))
        bodies.append(body)
        return calls(bash("true")) if len(bodies) == 1 else {"text": f"Report {len(bodies)}."}

    place.script(model)
    done = place.ask("--allow", "run", "--json", "review")
    assert done.status == 0 and len(bodies) == 3, done
    assert sum("is off: its `type` is prompt" in line for line in done.told) == 1, done.told
    assert "BE KIND" in str(bodies[0]["messages"]) and "look again" in str(bodies[2]["messages"][-1]["content"])
    assert (place.folder / "stopped").exists() and not (place.folder / "other").exists()
    seen = [json.loads(line) for line in (place.folder / "seen.log").read_text().splitlines()]
    events = [one["hook_event_name"] for one in seen]
    assert events == ["SubagentStart", "PreToolUse", "SubagentStop", "SubagentStop"], events
    assert {(one["agent_id"], one["agent_type"], one["session_id"]) for one in seen} == {
        ("w1", "reviewer", done.result["session"])
    }
    keys = "session_id transcript_path cwd prompt_id permission_mode agent_id agent_type hook_event_name"
    own = "stop_hook_active agent_transcript_path last_assistant_message background_tasks session_crons"
    assert [*seen[-1]] == [*keys.split(), *own.split()], "as Claude Code 2.1.330 orders them"
    assert [*seen[0]] == [key for key in keys.split() if key != "permission_mode"]
    assert [one["stop_hook_active"] for one in seen[2:]] == [False, True]
    assert seen[3]["last_assistant_message"] == "Report 3." and seen[3]["agent_transcript_path"].endswith(".jsonl")
    assert seen[3]["agent_transcript_path"] != seen[3]["transcript_path"]


def test_hooks_of_codex_get_the_input_of_codex(place: Stage) -> None:
    (place.folder / ".claude" / "settings.json").unlink()
    events = "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"
    see = [{"hooks": [command_hook(f"cat >> {place.folder}/seen.log; echo >> {place.folder}/seen.log")]}]
    write_files(place.folder, {".codex/hooks.json": json.dumps({"hooks": dict.fromkeys(events, see)})})
    assert place.run("trust", stdin=b"y\n").status == 0
    place.script(Worker(bash("echo hü")))
    assert place.ask("--allow", "run", "say it").status == 0
    seen = [json.loads(line) for line in (place.folder / "seen.log").read_text().splitlines()]
    keys = "session_id turn_id transcript_path cwd hook_event_name model permission_mode".split()
    call = ["tool_name", "tool_input"]
    assert [[*one] for one in seen] == [
        [*(key for key in keys if key != "turn_id"), "source"],
        [*keys, "prompt"],
        [*keys, *call, "tool_use_id"],
        [*keys, *call, "tool_response", "tool_use_id"],
        [*keys, "stop_hook_active", "last_assistant_message"],
    ], "as codex 0.169.0 has them"
    assert seen[3]["tool_response"] == "hü\n"
