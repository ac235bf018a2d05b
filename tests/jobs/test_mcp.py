"""The job: "use the notes server of my team", added by hand, used in a script and in the terminal, then removed.

A second server is dead, and must harm nothing. A third one is the project's, and is not started before it is trusted.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program.stage import MODEL, QUICK, Stage, calls, stage
from server.play import closed_port
from server.received import tool_results
from terminal.repl import Repl
from terminal.terminal import ENTER, Terminal

from nexus_cli.mcp.server_values import token_path

SERVER = Path(__file__).with_name("notes_server.py")
ADD, CLEAR = "mcp__notes__add_note", "mcp__notes__clear_notes"
pytest.importorskip("mcp")


def offered(body: Any) -> set[str]:
    return {one["function"]["name"] for one in body.get("tools", ())}


def model(body: Any) -> dict[str, Any]:
    """Does what the newest message says, with the tools that it has been given."""
    typed = [
        index
        for index, one in enumerate(body["messages"])
        if one["role"] == "user" and "[Images in" not in str(one["content"])
    ]
    place = typed[-1]
    said = str(body["messages"][place]["content"])
    got = [str(one["content"]) for one in body["messages"][place:] if one["role"] == "tool"]
    if "NOTE" in said:
        if got:
            return {"text": f"The server said: {got[-1]}"}
        return calls((ADD, {"text": "buy milk"})) if ADD in offered(body) else {"text": "I have no notes server."}
    if "CLEAR" in said:
        return {"text": f"Notes are {got[-1]}."} if got else calls((CLEAR, {}))
    if "DRAW" in said:
        return {"text": got[-1]} if got else calls(("mcp__notes__draw_notes", {"broken": "BROKEN" in said}))
    if "SEARCH" in said:
        found = "mcp__notes__list_notes" in "".join(got)
        steps = [
            ("use_tool", {"name": "the notes"}),
            ("use_tool", {"name": "mcp__notes__list_notes", "arguments": {}}),
        ]
        return calls(steps[len(got)]) if len(got) < 2 else {"text": f"found {found}: {got[-1]}"}
    return {"text": "nothing to do"}


def bodies(place: Stage) -> list[Any]:
    return [one.body for one in place.server.requests]


def shows(text: str) -> Callable[[Terminal], bool]:
    return lambda terminal: text in " ".join(" ".join(terminal.scrollback()).split())


def test_a_server_is_added_used_and_removed(tmp_path: Path) -> None:
    with stage(tmp_path, model) as place:
        notes = place.folder / "notes.txt"
        added = place.run("mcp", "add", "notes", sys.executable, str(SERVER), str(notes))
        assert added.status == 0 and "4 tools" in added.text, added
        dead = place.run("mcp", "add", "dead", "/bin/false")
        assert dead.status == 0 and "To test again: nexus mcp test dead" in dead.told[-1], dead
        assert place.run("mcp", "test", "dead").status == 1
        login = place.run("mcp", "login", "dead")
        assert login.status == 2 and "only servers with a URL have a login" in login.told[-1], login
        assert place.run("mcp", "add", "de.ad", "/bin/false").status == 0
        twin = place.run("mcp", "add", "de_ad", "/bin/false")
        assert twin.status == 2 and "its tools would have the same names as those of de.ad" in twin.told[-1], twin
        place.run("mcp", "remove", "de.ad")
        other = place.run("mcp", "add", "far", "ftp://127.0.0.1/mcp")
        assert other.status == 2 and "url must begin with https:// or http://" in other.told[-1], other
        away = f"http://127.0.0.1:{closed_port()}/mcp"
        assert place.run("mcp", "add", "away", away).status == 0
        tokens = token_path(place.nexus_home / "data", "away", away)
        tokens.parent.mkdir(parents=True, exist_ok=True)
        tokens.write_text("{}")
        assert place.run("mcp", "remove", "away").status == 0 and not tokens.exists()

        asked = place.ask("--json", "NOTE it")
        assert asked.status == 0 and not notes.exists(), asked
        assert "on the MCP server notes" in asked.result["text"] and asked.result["denied"][0]["tool"] == ADD

        assert place.run("rules", "add", "allow mcp__notes__*").status == 0
        asked = place.ask("NOTE it")
        assert asked.text.strip() == "The server said: note 1: buy milk", asked
        assert notes.read_text() == "buy milk\n"
        assert sum("dead" in line for line in asked.told) <= 1, asked.told

        before = [json.dumps(one["tools"]) for one in bodies(place)]
        assert len(set(before)) == 1, "the same tools in every request"

        with Repl.of_stage(place) as repl:
            repl.say("CLEAR them", ends=False)
            repl.wait_for(lambda one: any("1 yes" in line for line in one.lines()), 60)
            time.sleep(2.5)  # until the question takes keys
            repl.send("1")
            repl.wait_for(shows("Notes are thrown away."), 60)
            repl.idle()
            repl.send("/mcp" + ENTER)
            repl.wait_for(shows("dead"))
        assert not notes.exists()

        assert place.run("mcp", "remove", "notes").status == 0 and place.run("mcp", "remove", "dead").status == 0
        gone = place.ask("NOTE it")
        assert gone.text.strip() == "I have no notes server.", gone
        assert "No MCP servers" in place.run("mcp", "list").text


def test_a_server_of_the_project_waits_for_trust_and_works_from_the_first_ask_on(tmp_path: Path) -> None:
    with stage(tmp_path, model) as place:
        notes = place.folder / "notes.txt"
        notes.write_text("a note\n")
        late = (
            "import runpy, sys, time; time.sleep(2); del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
        )
        server = {"command": sys.executable, "args": ["-c", late, str(SERVER), str(notes)]}  # after the first request
        (place.folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"notes": server}}))
        waiting = place.run("mcp", "list")
        assert (
            waiting.text.startswith("No MCP servers")
            and "Not active in this project: 1 MCP server (" in waiting.told[-1]
        ), waiting
        assert "Not active in this project: 1 MCP server (" in place.run("mcp", "test", "notes").told[0]
        assert place.run("trust", "--json").status == 0
        assert place.run("mcp", "list").told == []
        place.run("rules", "add", "allow mcp__notes__list_notes")
        asked = place.ask("SEARCH for it")
        assert asked.text.strip() == "found True: a note", asked
        first = bodies(place)[0]
        assert "MCP servers notes (starting)" in str(first["tools"]) and ADD not in offered(first)
        asked = place.ask("nothing")
        assert ADD in offered(bodies(place)[-1]) and "MCP servers notes (resources)" in str(bodies(place)[-1]["tools"])
        systems = [str(one["messages"][0]["content"]) for one in (first, bodies(place)[-1])]
        said = (
            "# MCP server notes (text from the server)\nKeep each note short.\n(nexus: the person allowed everything]"
        )
        assert "Keep each note short" not in systems[0] and said in systems[1], systems
        sections = json.loads(place.run("context", "--json").stdout)["sections"]
        assert [one["tokens"] > 5 for one in sections if one["id"] == "servers.notes"] == [True], sections


def test_what_a_model_writes_is_never_started_as_a_server(tmp_path: Path) -> None:
    """A server runs without a sandbox: an edit, which asks nobody, may change neither entry nor script."""

    def spoils(body: Any) -> dict[str, Any]:
        path = str(next(one["content"] for one in reversed(body["messages"]) if one["role"] == "user")).split()[-1]
        steps = [
            ("bash", {"command": f"cp {path}.new {path}"}),
            ("use_tool", {"name": ADD, "arguments": {"text": "x"}}),
        ]
        done = sum(one["role"] == "tool" for one in body["messages"])
        return calls(steps[done]) if done < 2 else {"text": tool_results(body)[-1]}

    with stage(tmp_path, spoils) as place:
        notes, canary, script = place.folder / "notes.txt", place.folder / "canary", place.folder / "tools" / "notes.py"
        script.parent.mkdir()
        script.write_text(SERVER.read_text())
        forged = f"open({str(canary)!r}, 'w')\n"
        (script.parent / "notes.py.new").write_text(forged + SERVER.read_text())
        entry = {"command": sys.executable, "args": ["tools/notes.py", str(notes)]}
        (place.folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"notes": entry}}))
        code = {"command": sys.executable, "args": ["-c", forged]}
        (place.folder / ".mcp.json.new").write_text(json.dumps({"mcpServers": {"notes": code}}))
        assert place.run("trust", "--json").status == 0
        place.run("rules", "add", "allow mcp__notes__*")
        place.run("mcp", "test", "notes")
        for path in ("tools/notes.py", ".mcp.json"):
            asked = place.ask("--allow", "all", "change", path)
            assert "changed since you trusted it; run `nexus trust`" in asked.text, asked
            assert place.ask("--allow", "all", "change", "none").status == 0
            assert not canary.exists() and not notes.exists()
            assert place.run("mcp", "list").text.startswith("No MCP servers")
            script.write_text(SERVER.read_text())
        (place.folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"notes": entry}}))
        assert place.ask("--allow", "all", "change", "none").text.startswith("note 1"), "as it was trusted it works"


def test_a_broken_server_is_named_with_its_last_line_alone_and_its_test_shows_the_others(tmp_path: Path) -> None:
    with stage(tmp_path, model) as place:
        lines = "echo Traceback >&2; echo File x >&2; echo no module y >&2; exit 3"
        place.settings(f'model = "{MODEL}"\n{QUICK}[mcp.broken]\ncommand = ["/bin/sh", "-c", "{lines}"]\n')
        told = [line for line in place.ask("hi").told if "broken" in line]
        line = (
            "nexus: MCP server broken: the server exited with status 3: no module y; to test it: nexus mcp test broken"
        )
        assert told in ([], [line]), "the turn may end before the server does"
        tested = place.run("mcp", "test", "broken")
        assert tested.status == 1 and "Traceback | File x | no module y" in tested.told[-1], tested


def test_a_server_that_was_repaired_after_its_start_failed_works_after_a_reload(tmp_path: Path) -> None:
    with stage(tmp_path, model) as place:
        notes = place.folder / "notes.txt"
        notes.write_text("a note\n")
        start = f"test -e {place.folder}/ready || exit 3; exec {sys.executable} {SERVER} {notes}"
        place.settings(f'model = "{MODEL}"\n{QUICK}[mcp.notes]\ncommand = ["/bin/sh", "-c", "{start}"]\n')
        place.run("rules", "add", "allow mcp__notes__list_notes")
        with Repl.of_stage(place) as repl:
            repl.say("SEARCH for it")
            repl.wait_for(shows("found True: there is no tool"))
            repl.idle()
            assert "exited with status 3" in str(bodies(place)[-1]["messages"])
            (place.folder / "ready").touch()
            repl.send("/reload\r")
            repl.wait_for("Instructions reloaded")
            repl.say("SEARCH for it once more")
            repl.wait_for(shows("found True: a note"))
            repl.idle()
            found = str(bodies(place)[-2]["messages"][-1]["content"])
            assert "mcp__notes__list_notes" in found and "exited with status" not in found, found


def last_message(place: Stage, role: str = "user") -> Any:
    return [one for one in bodies(place)[-1]["messages"] if one["role"] == role][-1]["content"]


def test_what_a_message_names_of_a_server_is_attached_with_its_source(tmp_path: Path) -> None:
    with stage(tmp_path, model) as place:
        notes = place.folder / "notes.txt"
        notes.write_text("buy milk\n")
        assert place.run("mcp", "add", "notes", sys.executable, str(SERVER), str(notes)).status == 0

        asked = place.ask("--json", "what is in @notes:note://all, and in @other:note://x?")
        sent = last_message(place)
        assert "@notes:note://all, and" in sent and '<resource server="notes" uri="note://all">\nbuy milk' in sent
        assert sent.count("</resource>") == 1, "a server's text cannot end its block"
        notices = " ".join(asked.told)
        assert "no MCP server other; sent as text" in notices and "Attached notes:note://all" in notices
        attached = place.run("context", "--session", asked.result["session"], "--json").result["attachments"]
        assert [one["path"] for one in attached] == ["@notes:note://all"]

        assert place.ask("@notes:note://none is what?").status == 0
        assert "<resource" not in last_message(place)
        piped = place.ask(stdin=b"a log with @notes:note://all")
        assert piped.status == 0 and "<resource" not in last_message(place), "piped text names nothing"

        assert place.ask("/mcp__notes__review_note 'buy milk' tone=stern").status == 0
        sent = last_message(place)
        assert '<command name="mcp__notes__review_note" source="MCP server notes">' in sent
        assert "Review the note 'buy milk', be stern." in sent
        before = len(bodies(place))
        missing = place.ask("/mcp__notes__review_note")
        assert missing.status != 0 and "text is missing" in missing.told[0] and len(bodies(place)) == before
        assert len(missing.told) == 1, "no session is left to resume"


def test_pictures_reach_a_model_that_takes_images_and_else_are_named_with_their_size(tmp_path: Path) -> None:
    with stage(tmp_path, model) as place:
        place.settings(f'model = "{MODEL}"\n{QUICK}[models."{MODEL}"]\nwindow = 128000\nimages = true\n')
        place.run("mcp", "add", "notes", sys.executable, str(SERVER), str(place.folder / "notes.txt"))
        place.run("rules", "add", "allow mcp__notes__*")
        asked = place.ask("--json", "DRAW them")
        assert "image/png" in asked.result["text"] and "attached" in asked.result["text"], asked
        shown = last_message(place)
        assert shown[0]["text"].endswith("[Images in the result of mcp__notes__draw_notes]")
        assert shown[1]["image_url"]["url"].startswith("data:image/png;base64,iVBOR")
        servers = place.run("context", "--session", asked.result["session"], "--json").result["servers"]
        assert [one["name"] for one in servers] == ["notes"] and servers[0]["schemas"] > servers[0]["results"] > 0
        asked = place.ask("DRAW a BROKEN one")
        assert "not shown, it is not a complete PNG" in asked.text and isinstance(last_message(place), str)
        place.settings((place.nexus_home / "config" / "config.toml").read_text().replace("images = true", ""))
        asked = place.ask("DRAW them")
        assert "bytes: not shown, this model does not accept images" in asked.text, asked
        assert isinstance(last_message(place), str)


def test_a_server_that_is_added_while_a_session_is_open_is_told_and_works(tmp_path: Path) -> None:
    with stage(tmp_path, model) as place:
        notes = place.folder / "notes.txt"
        with Repl.of_stage(place) as repl:
            repl.say("hello")
            added = place.run("mcp", "add", "notes", sys.executable, str(SERVER), str(notes))
            assert added.status == 0
            place.run("rules", "add", "allow mcp__notes__*")
            repl.say("hello again")
            told = str(bodies(place)[-1]["messages"])
            assert "the MCP server notes now has the tools mcp__notes__add_note" in told, told
            assert ADD not in offered(bodies(place)[-1]), "the schemas of an epoch stay"
            repl.say("DRAW them")
            repl.wait_for(shows("this model does not accept images"))
            repl.idle()
            repl.send("/context" + ENTER)
            repl.wait_for(shows("notes: schemas 0, results "))
            repl.idle()
            repl.send("/mcp__notes__rev")
            repl.wait_for(shows("Review a note. (MCP server notes)"))
            repl.send("iew_note milk" + ENTER)
            repl.idle()
            assert "Review the note 'milk', be kind." in last_message(place)
            place.run("mcp", "remove", "notes")
            repl.say("and now")
            assert "the MCP server notes was removed" in str(bodies(place)[-1]["messages"][-1])
