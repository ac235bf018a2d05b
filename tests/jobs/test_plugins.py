"""The job: somebody adds a plugin folder that others made: its command, skill, hook and server work, as accepted.

Nothing runs when it is added, nothing follows its source, a changed byte is off and said, and removal leaves nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from plugins.plugin_layouts import make_hookify
from program.stage import Done, Stage, calls, stage
from programs import need
from project_files import commit_all, write_files
from terminal.repl import Repl
from terminal.terminal import ENTER, Terminal

HOOK = "hook PreToolUse"
BASH = "echo fine", "rm -rf nothing"
BROKEN_HOOKS = {"Stop": {"type": "prompt", "prompt": "ok?"}, "WorktreeCreate": {"type": "command", "command": "x"}}


class Model:
    """Makes the calls of the newest message's first line, and keeps the requests."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []

    def __call__(self, body: Any) -> dict[str, Any]:
        self.bodies.append(body)
        since = max(at for at, one in enumerate(body["messages"]) if one["role"] == "user")
        done = sum(one["role"] == "tool" for one in body["messages"][since:])
        changed = str(body["messages"][since]["content"]).partition("CHANGED ")[2]
        if changed and not done:
            with open(changed.split()[0], "a") as file:
                file.write("# another\n")
            return calls(("use_tool", {"name": "mcp__plugin_hookify_notes__add_note", "arguments": {"text": "x"}}))
        if "BASH" not in str(body["messages"][since]["content"]):
            return {"text": "Done."}
        return calls(("bash", {"command": BASH[done]})) if done < len(BASH) else {"text": "Done."}

    def said(self, role: str) -> str:
        return "\n".join(str(one["content"]) for one in self.bodies[-1]["messages"] if one["role"] == role)


def shows(text: str) -> Callable[[Terminal], bool]:
    return lambda terminal: text in "\n".join(terminal.lines())


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def place(tmp_path: Path, model: Model) -> Iterator[Stage]:
    with stage(tmp_path, model) as made:
        yield made


def source(place: Stage, **servers: object) -> Path:
    return make_hookify(place.home.parent / "hookify", **servers)


def listed(place: Stage) -> dict[str, str]:
    """State of each item by its key."""
    value = place.run("plugin", "list", "--json").result
    return {f"{item['kind']} {item['name']}": item["state"] for one in value["plugins"] for item in one["items"]}


def installed(place: Stage) -> Path:
    return place.nexus_home / "data" / "plugins" / "hookify"


def add(place: Stage, folder: Path | str, *options: str) -> Done:
    done = place.run("plugin", "add", *options, str(folder))
    assert done.status == 0, done
    return done


def test_nothing_runs_when_a_plugin_is_added_and_without_an_answer_nothing_is_installed(place: Stage) -> None:
    canary = place.home / "canary"
    folder = make_hookify(place.home.parent / "hookify", canary={"command": "touch", "args": [str(canary)]})
    hooks = {"SessionStart": [{"hooks": [{"type": "command", "command": f"touch {canary}"}]}]}
    write_files(folder, {"hooks/hooks.json": json.dumps({"hooks": hooks}), "commands/x.md": f"!`touch {canary}`\n"})
    done = place.run("plugin", "add", str(folder))
    assert done.status == 2 and "--yes ITEM or --all" in done.told[-1] and "server canary" in done.told[-1], done
    assert "plugin hookify was not installed" in done.told[-1], done.told
    empty = place.run("plugin", "add", str(folder), "--yes", "")
    assert empty.status == 2 and "the value is empty" in empty.told[-1], "an unset variable accepts nothing"
    assert f"runstouch{canary}" in "".join(done.text.split()), "it is shown what it would run"
    assert not installed(place).exists() and listed(place) == {}
    assert "No plugin is installed" in place.run("plugin", "update", "hookify").told[-1]

    add(place, folder, "--yes", "command x")
    assert "plugins      hookify (`nexus plugin list`)" in place.run("status").text
    assert set(listed(place).values()) == {"active", "off"} and listed(place)["command x"] == "active"
    assert place.run("skill", "list").status == place.run("mcp", "list").status == 0
    place.settings((place.nexus_home / "config/config.toml").read_text())
    assert place.ask("hello").status == 0
    assert not canary.exists(), "what was not accepted does not run"


def test_in_effect_is_said_only_of_what_a_session_loads_and_the_rest_has_a_reason(place: Stage) -> None:
    assert place.run("mcp", "add", "plugin_hookify_mine", "true").status == 0
    servers = {"off": {"command": "x", "disabled": True}, "bad": {"url": "ftp://x"}, "mine": {"command": "x"}}
    hooks = {event: [{"hooks": [hook]}] for event, hook in BROKEN_HOOKS.items()}
    files = {
        "hooks/hooks.json": json.dumps({"hooks": hooks}),
        "skills/open/SKILL.md": "---\nname: open\n",
        "skills/bare/SKILL.md": "---\nname: bare\n---\n# Title\n",
        "commands/empty.md": "",
        "agents/worker.md": "---\nname: worker\ndescription: Works.\nallowed-tools: Read\n---\nWork.\n",
    }
    done = add(place, write_files(source(place, **servers), files), "--all")
    assert "hookify is installed; 3 of 13 items in effect." in done.told[-1], done.told
    shown, found = " ".join(done.text.split()), place.run("plugin", "list", "--json").result["plugins"][0]["items"]
    assert {f"{one['kind']} {one['name'][:6]}": one["problem"] for one in found} == {
        "agent conver": "has no text after its front matter",
        "agent worker": "has the same name as a recipe, and the recipe takes precedence",
        "command empty": "is empty",
        "command help": "",
        "command list": "",
        "hook Stop {": "its `type` is prompt; only command, with a `command` string, is supported",
        "hook Worktr": "unknown event WorktreeCreate",
        "server bad": "url must begin with https:// or http://",
        "server mine": "another server has this name",
        "server off": "the server is disabled in its entry",
        "skill bare": "has no description",
        "skill open": "has front matter without a closing --- line",
        "skill writin": "",
    }
    assert all(f"[no effect: {one['problem']}]" in shown for one in found if one["problem"]), shown
    assert "permits" not in next(one["what"] for one in found if one["name"] == "worker"), "not in Claude Code either"
    assert "skill open [no effect: has front matter" in " ".join(place.run("plugin", "list").text.split())


def test_its_command_skill_and_hook_are_used_and_removal_leaves_nothing(place: Stage, model: Model) -> None:
    need("bwrap")
    before = sorted(path.name for path in (place.nexus_home / "data").glob("*"))
    add(place, source(place), "--all")
    assert place.ask("--allow", "run", "/list").status == 0
    assert "They are: no rm" in model.said("user"), "`${CLAUDE_PLUGIN_ROOT}` is the installed copy"
    assert place.ask("/hookify:help").status == 0
    assert "Explain the rules." in model.said("user"), "`/help` is built in"
    assert "writing-rules: How to write a rule" in model.said("system")
    assert "Be brief." in place.run("skill", "use", "writing-rules").text
    done = place.ask("--json", "--allow", "run", "BASH")
    assert done.status == 0, done
    assert "A rule forbids it." in model.said("tool") and "fine" in model.said("tool")
    assert [one["subject"] for one in done.result["denied"]] == ["rm -rf nothing"]
    assert set(listed(place).values()) == {"active"}, "its use has changed nothing of it"

    assert place.run("plugin", "remove", "hookify").status == 0
    left = sorted(path.name for path in (place.nexus_home / "data").glob("plugin*"))
    assert left == [] and place.run("plugin", "list").text.startswith("No plugins"), before
    place.ask("/list")
    assert "They are" not in model.said("user") and "writing-rules" not in model.said("system")
    assert place.run("plugin", "remove", "hookify").status == 2


def test_its_server_is_used_with_its_own_folder(place: Stage, model: Model) -> None:
    pytest.importorskip("mcp")
    folder = source(
        place, notes={"command": sys.executable, "args": ["${CLAUDE_PLUGIN_ROOT}/notes_server.py", "notes.txt"]}
    )
    write_files(folder, {"notes_server.py": Path(__file__).with_name("notes_server.py").read_text()})
    add(place, folder, "--yes", "server")
    row = place.run("mcp", "list", "--json").result["servers"][0]
    assert (row["name"], row["source"], row["file"]) == ("plugin_hookify_notes", "plugin", "plugin hookify")
    done = place.run("mcp", "test", "plugin_hookify_notes")
    assert done.status == 0 and "4 tools" in done.text, done
    assert listed(place)["server notes"] == "active", "its process has left nothing in its folder"
    place.ask("--allow", "all", "CHANGED", str(installed(place) / "notes_server.py"))
    assert "changed since you trusted it; run `nexus plugin update hookify`" in model.said("tool"), model.said("tool")
    assert place.run("plugin", "update", "hookify", "--all").status == 0
    assert place.run("mcp", "add", "plugin_hookify_notes", "/bin/false").status == 0
    assert "another server has this name" in " ".join(place.run("mcp", "list").text.split())


def test_a_changed_source_changes_nothing_and_a_changed_copy_is_off_and_said(place: Stage, model: Model) -> None:
    need("bwrap")
    folder = source(place)
    add(place, folder, "--all")
    (folder / "core" / "rules.py").write_text('FORBIDDEN = "echo"\n')
    assert "changed" not in " ".join(place.ask("--allow", "run", "BASH").told)
    assert "fine" in model.said("tool") and "A rule forbids it." in model.said("tool")

    rules = installed(place) / "core" / "rules.py"
    rules.chmod(0o600)
    rules.write_text('FORBIDDEN = ""\n')
    states = listed(place)
    assert states["skill writing-rules"] == states["command help"] == "active"
    assert states["command list"] == "changed" and next(v for k, v in states.items() if HOOK in k) == "changed"
    done = place.ask("--allow", "run", "BASH")
    assert any("plugin hookify was changed after you accepted it" in line for line in done.told), done.told
    assert "A rule forbids it." not in model.said("tool"), "it does not run"
    place.ask("/list")
    assert "They are" not in model.said("user")

    done = place.run("plugin", "update", "hookify")
    assert done.status == 2 and '+FORBIDDEN = "echo"' in done.text, "the source differs: it is asked again"
    assert "plugin hookify was not updated" in done.told[-1], done.told
    done = place.run("plugin", "update", "hookify", "--yes", "hook", "--json")
    assert done.status == 0 and "FORBIDDEN" in done.result["diff"], done
    states = listed(place)
    assert states["command list"] == "off" and next(v for k, v in states.items() if HOOK in k) == "active"
    assert place.run("plugin", "update", "hookify", "--all").status == 0
    assert place.run("plugin", "update", "hookify").told == ["nexus: hookify has not changed since you accepted it."]
    place.ask("--allow", "run", "BASH")
    assert model.said("tool").count("A rule forbids it.") == 1 and "fine" not in model.said("tool")


def test_a_repository_is_added_at_a_commit_and_follows_no_branch(place: Stage) -> None:
    need("git")
    repository = place.home.parent / "market"
    make_hookify(repository / "plugins" / "hookify")
    first = commit_all(repository)
    for bad in (f"{repository}@none", f"{repository}@{first[:12]}", f"-x@{first}", f"{repository}@--upload-pack=x"):
        done = place.run("plugin", "add", "--all", "--", bad)
        assert done.status == 2 and b"Traceback" not in done.stderr, done
    canary = place.home / "canary"
    for address in (f"ext::sh -c touch% {canary}@{first}", f"ext::sh://-c touch% {canary}/x@{first}"):
        assert place.run("plugin", "add", "--all", address).status in (1, 2)
        assert not canary.exists(), "a repository's address runs nothing"
    assert place.run("plugin", "add", "--all", f"{repository}@{'0' * 40}").status == 1
    assert "no folder nowhere" in place.run("plugin", "add", "--all", f"{repository}@{first}:nowhere").told[-1]

    add(place, f"file://{repository}@{first}:plugins/hookify", "--all")
    (repository / "plugins/hookify/commands/more.md").write_text("More.\n")
    second = commit_all(repository)
    (kept,) = place.run("plugin", "update", "hookify").told
    assert "hookify has not changed since you accepted it. It is pinned to a commit" in kept
    assert not (installed(place) / ".git").exists()
    done = place.run("plugin", "update", "hookify", second, "--yes", "command more")
    assert done.status == 0 and "+++ b/commands/more.md" in done.text, done
    assert listed(place)["command more"] == "active"
    value = place.run("plugin", "list", "--json").result["plugins"][0]
    assert value["source"] == f"file://{repository}@{second}:plugins/hookify"


def test_a_terminal_asks_once_for_all_items_and_shows_their_commands(place: Stage) -> None:
    folder = source(place)
    environment = place.environment | {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
    with Terminal(
        [place.program, "plugin", "add", str(folder)], env=environment, cwd=place.folder, columns=160
    ) as terminal:
        terminal.wait_for(shows("Accept which? (all, none, or numbers such as 1 5)"), 60)
        assert shows(" 2 command help")(terminal) and shows(" 3 command list: runs sh")(terminal)
        terminal.send("2 x" + ENTER)
        terminal.wait_for(shows("Type numbers from the list, all or none."), 60)
        terminal.send("2, 5" + ENTER)
        terminal.wait_for(shows("2 of 5 items in effect"), 60)
    states = listed(place)
    assert sorted(key for key, state in states.items() if state == "active") == ["command help", "skill writing-rules"]

    with Repl.of_stage(place) as repl:
        repl.send("/hel")
        repl.wait_for(shows("hookify:help"), 60)
