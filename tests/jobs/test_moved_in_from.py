"""The job: a person who used Claude Code moves in with all that is in the home folder, goes on with an old session, and
takes it back out.
"""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from imports.claude_home import INSTRUCTIONS, KEY, Session, make_home, make_sessions
from program.stage import PRICED, QUICK, Stage, clean, end, stage


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        make_home(made.home, str(made.folder))
        yield made


WALLED = ("read_file", "edit_file", "write_file")
"""Tools that a denied reading keeps from a path."""


def personal_files(place: Stage) -> dict[str, str]:
    folder = place.nexus_home / "config"
    return {path.name: path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_settings_are_moved_in_once_and_nothing_gets_broader(place: Stage) -> None:
    before = personal_files(place)
    shown = place.run("import", "claude", "--dry-run")
    assert shown.status == 0 and clean(shown), shown
    assert personal_files(place) == before and "+[mcp.files]" in shown.text and "+Answer in short" in shown.text
    refused = place.run("import", "claude")
    assert refused.status == 2 and "--yes" in refused.told[-1] and personal_files(place) == before

    done = place.run("import", "claude", "--yes")
    assert done.status == 0 and clean(done), done
    lost, other = done.text.index("Restrictions that were not imported:"), done.text.index("Not imported:")
    assert lost < done.text.index("deny Read([a-z].pem)") < done.text.index("ask NotebookEdit") < other
    assert other < done.text.index("allow Bash(git * main)") and "used in place" in done.text
    assert other < done.text.index("would allow more in nexus, because the rule NotebookEdit"), "ours edits notebooks"
    assert "plugins (commit-commands@claude-code-plugins): use `nexus plugin add`" in done.text
    assert "statusLine: use `nexus config set ui.status_command COMMAND`" in done.text
    assert "nexus login anthropic" in done.text and "nexus login GITHUB_TOKEN" in done.text
    made = personal_files(place)
    assert (
        made["NEXUS.md"] == INSTRUCTIONS
        and QUICK.strip() in made["config.toml"]
        and PRICED.strip() in made["config.toml"]
    )
    assert KEY not in done.text + "".join(made.values()) and "sk-ant" not in done.text + "".join(made.values())

    rules = json.loads(place.run("rules", "list", "--json").text)
    listed = {(one["decision"], one["rule"]) for one in rules["rules"]}
    assert not rules["problems"] and listed == {
        *(("deny", f"{tool}({path})") for tool in WALLED for path in ("./.env", "/etc/passwd")),
        ("deny", "bash(curl *)"),
        ("deny", "bash(rm -rf *.log /tmp)"),
        ("ask", "bash(git push *)"),
        ("allow", "bash(npm test *)"),
        ("allow", "fetch(docs.python.org)"),
        ("allow", "mcp__github__*"),
    }
    again = place.run("import", "claude")
    assert again.status == 0 and "Nothing new" in again.text and personal_files(place) == made
    assert all("To import its 3 sessions: nexus import claude --sessions" in one.text for one in (shown, done, again))


def test_settings_and_sessions_are_moved_in_at_once(place: Stage) -> None:
    before = personal_files(place)
    refused = place.run("import", "claude", "--all")
    assert refused.status == 2 and "--yes" in refused.told[-1], refused
    shown = place.run("import", "claude", "--all", "--dry-run")
    assert "+[mcp.files]" in shown.text and "3 sessions would be imported" in shown.text, shown
    assert personal_files(place) == before and not place.run("sessions", "list", "--json", "--all").result["sessions"]
    done = json.loads(place.run("import", "claude", "--all", "--yes", "--json").text)
    assert [one["written"] for one in done["files"]] == [True] * 2 and done["sessions"]["new"] == 3, done
    assert any("NotebookEdit" in one for one in done["left_out"])
    again = place.run("import", "claude", "--all")
    assert again.status == 0 and "Nothing new" in again.text and "3 unchanged" in again.text, again
    assert "--sessions" not in again.text
    assert place.run("import", "opencode", "--all").status == 2, "there is nothing"


def test_where_there_are_only_sessions_they_are_named(place: Stage) -> None:
    for path in [place.home / ".claude.json", *(place.home / ".claude").iterdir()]:
        if path.name != "projects":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    done = place.run("import", "claude")
    assert done.status == 2 and "To import its 3 sessions: nexus import claude --sessions" in done.told[-1], done


def test_an_old_session_is_found_continued_and_taken_out_again(place: Stage, tmp_path: Path) -> None:
    seen: list[Any] = []

    def model(body: Any) -> dict[str, Any]:
        seen.append(body)
        return {"text": "The harbour is deployed."}

    place.script(model)
    assert place.ask("Hello").status == 0
    assert "3 sessions would be" in place.run("import", "claude", "--sessions", "--dry-run").text
    assert len(json.loads(place.run("sessions", "list", "--json", "--all").text)["sessions"]) == 1
    done = place.run("import", "claude", "--sessions")
    newest = json.loads(place.run("sessions", "list", "--json", "--all").text)["sessions"][0]
    assert newest["first_text"] == "Hello", "what was used here comes first"
    assert done.status == 0 and "3 sessions were imported" in done.text and "2,750 tokens in" in done.text, done
    again = place.run("import", "claude", "--sessions")
    assert "0 sessions were imported, 0 updated, 3 unchanged" in again.text
    assert "walrus test passes" in place.run("sessions", "search", "walrus").text

    listed = json.loads(place.run("sessions", "list", "--json").text)["sessions"]
    assert [(one["first_text"], one["turns"]) for one in listed] == [
        ("Deploy the harbour", 1),
        ("Fix the discount", 2),
        ("What is in the pantry?", 1),
    ]
    cut = listed[0]["id"]
    assert "imported from claude: " in place.run("sessions", "show", cut).text
    assert "3 sessions imported from claude, with 2,750 input and 35 output tokens" in " ".join(
        place.run("usage").text.split()
    )
    done = place.ask("-r", cut, "Did it work?")
    assert (done.status, done.text) == (0, "The harbour is deployed.\n"), done
    talk = [one for one in seen[-1]["messages"] if one["role"] != "system"]
    assert [one["role"] for one in talk] == ["user", "assistant", "tool", "tool", "user"]
    assert talk[0]["content"].endswith("Deploy the harbour") and talk[1]["content"] == "I run it."
    assert [one["function"]["name"] for one in talk[1]["tool_calls"]] == ["Bash", "Read"]
    assert "outcome unknown" in talk[2]["content"] and talk[3]["content"] == "print(1)"
    assert talk[4]["content"].endswith("Did it work?") and seen[-1]["tools"]
    assert place.run("replay", "--session", cut).status == 0

    out = tmp_path / "back.jsonl"
    assert place.run("export", cut, "--format", "claude", "-o", str(out)).status == 0
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [one["parentUuid"] for one in records] == [None, *(one["uuid"] for one in records[:-1])]
    assert {one["sessionId"] for one in records} and {one["cwd"] for one in records} == {str(place.folder)}
    assert records[-1]["message"]["content"] == [{"type": "text", "text": "The harbour is deployed."}]
    results = [block["tool_use_id"] for one in records[2:4] for block in one["message"]["content"]]
    assert [one["type"] for one in records] == ["user", "assistant", "user", "user", "user", "assistant"]
    assert results == ["toolu_9", "toolu_10"]


def test_what_grew_there_is_added_unless_it_was_continued_here(place: Stage) -> None:
    place.script(["Fine."])
    place.run("import", "claude", "--sessions")
    plain, two, _ = make_sessions(str(place.folder))
    plain.user("And salt?").reply("No salt.").write(place.home / ".claude")
    done = place.run("import", "claude", "--sessions")
    assert "0 sessions were imported, 1 updated, 2 unchanged: 2 entries" in done.text, done
    Session("44444444-dddd", str(place.folder), 4).user("Salt?").reply("Yes.").write(place.home / ".claude")
    assert "1 session was imported" in place.run("import", "claude", "--sessions").text
    listed = json.loads(place.run("sessions", "list", "--json").text)["sessions"]
    assert (listed[-1]["first_text"], listed[-1]["turns"]) == ("What is in the pantry?", 2)

    (mine,) = (one["id"] for one in listed if one["first_text"] == "Fix the discount")
    assert place.ask("-r", mine, "Go on").status == 0
    two.user("Thanks").reply("You are welcome.").write(place.home / ".claude")
    done = place.run("import", "claude", "--sessions")
    assert f"session {mine} was continued here" in done.text and "0 updated" in done.text
    other = Session("11111111-aaaa", str(place.folder)).user("Something else").reply("Yes.")
    other.write(place.home / ".claude")
    done = place.run("import", "claude", "--sessions")
    assert "imported messages have changed" in done.text and "Something else" not in place.run("sessions", "list").text


def answer(place: Stage, *typed: bytes) -> tuple[int, str]:
    """`nexus import claude` at a terminal, with an answer to each of its questions; its status and what it showed."""
    controller, terminal = pty.openpty()
    child = place.begin("import", "claude", stdin=terminal, stderr=terminal, stdout=subprocess.PIPE)
    os.close(terminal)
    shown = b""
    try:
        for line in typed:
            before = len(shown)
            while not shown[before:].endswith(b": "):  # the question takes keys
                assert select.select([controller], [], [], 120)[0], shown.decode()
                shown += os.read(controller, 65536)
            os.write(controller, line)
        out = child.communicate(timeout=120)[0].decode()
        with suppress(OSError):  # the terminal has closed
            while select.select([controller], [], [], 5)[0]:
                shown += os.read(controller, 65536)
    finally:
        end(child)
        os.close(controller)
    return child.returncode, out + shown.decode()


def test_each_file_is_asked_about_at_a_terminal(place: Stage) -> None:
    place.settings(f'model = "openai/mine"\n{QUICK}{PRICED}')
    before = personal_files(place)
    status, shown = answer(place, b"m\n", b"n\n", b"\n")
    assert status == 0 and personal_files(place) == before
    assert (
        "[M]ine \u00b7 [t]heirs" in " ".join(shown.split()) and "Write " in shown and "nexus keeps your value" in shown
    )
    status, shown = answer(place, b"theirs\n", b"n\n", b"yes\n")
    made = personal_files(place)
    assert status == 0 and made == {**before, "NEXUS.md": INSTRUCTIONS}, shown
    assert "config.toml was not changed." in " ".join(shown.split())
    status, shown = answer(place, b"t\n", b"y\n")
    assert status == 0 and "anthropic/claude-sonnet-4-5" in personal_files(place)["config.toml"]
