"""The job: the first day in a project that has a `.claude` folder, for a person who comes from Claude Code.

Their skills and commands do here what they did there, once the project is trusted; before that nothing of them is seen.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from program.stage import Stage, calls, stage
from programs import need
from project_files import write_files
from terminal.repl import Repl
from terminal.terminal import ENTER

RELEASE = """---
name: release
description: Cut a release: bump the version, write the changelog, tag it. Use when a version is to be published.
allowed-tools: Bash(git *)
---

# Release
Write CHANGELOG.md as references/style.md says.
"""
REVIEW = """---
description: Review the changes of a file
argument-hint: [file]
allowed-tools: Bash(git diff:*)
model: haiku
---
Review $1 with care. Last commit: !`git log -1 --format=%s`
Our rules: @RULES.md
All: $ARGUMENTS
"""
MINE = "---\ndescription: Explain like a teacher\n---\nExplain step by step.\n"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    need("git")
    with stage(tmp_path) as made:
        files = {
            ".claude/skills/release/SKILL.md": RELEASE,
            ".claude/skills/release/references/style.md": "Short lines.\n",
            ".claude/commands/inspect.md": REVIEW,
            ".claude/commands/help.md": "Our own help.\n",
            ".claude/commands/web/button.md": "Draw a button: $ARGUMENTS\n",
            "RULES.md": "Names are whole words.\n",
        }
        write_files(made.folder, files)
        write_files(made.home, {".claude/skills/teach/SKILL.md": MINE})
        git = ["git", "-c", "user.name=x", "-c", "user.email=x@y.z"]
        for line in (["init", "-q"], ["add", "RULES.md"], ["commit", "-qm", "Add the rules"]):
            subprocess.run([*git, *line], cwd=made.folder, check=True)
        yield made


def answers(seen: list[Any], text: str) -> Callable[[Any], dict[str, Any]]:
    def model(body: Any) -> dict[str, Any]:
        seen.append(body)
        return {"text": text}

    return model


def said(body: Any, role: str) -> str:
    return "\n".join(str(one["content"]) for one in body["messages"] if one["role"] == role)


def test_a_skill_that_comes_while_a_session_runs_is_offered_with_a_way_to_read_it(tmp_path: Path) -> None:
    """The epoch of the session has no tool for skills, since there was no skill when it began."""
    seen: list[Any] = []

    def model(body: Any) -> dict[str, Any]:
        seen.append(body)
        is_news = "may fit this message (`nexus skill use ship` prints it)" in str(body["messages"][-1]["content"])
        return calls(("bash", {"command": "nexus skill use ship"})) if is_news else {"text": "Done."}

    with stage(tmp_path, model) as place:
        assert place.ask("hello").status == 0
        write_files(
            place.nexus_home,
            {
                "config/skills/ship/SKILL.md": "---\nname: ship\ndescription: How to ship a version of the shop\n---\n"
                "Tag it, then call Ada.\n",
            },
        )
        assert place.ask("-c", "--allow", "all", "ship a version of the shop").status == 0
        assert "skill" not in [tool["function"]["name"] for tool in seen[-1]["tools"]]
        assert "call Ada" in said(seen[-1], "tool")
        place.ask("ship a version of the shop")
        assert "The skill ship may fit this message: How" in said(seen[-1], "user"), "a new session has the tool"


def test_a_model_that_is_asked_about_nexus_reads_its_documentation(tmp_path: Path) -> None:
    seen: list[Any] = []

    def model(body: Any) -> dict[str, Any]:
        seen.append(body)
        is_told = "`nexus docs WORDS`" in str(body["messages"][-1]["content"])
        return calls(("bash", {"command": "nexus docs proxy password"})) if is_told else {"text": "See network."}

    with stage(tmp_path, model) as place:
        assert place.ask("how do I give nexus a proxy?").text == "See network.\n"
        assert "network   Behind a proxy: " in said(seen[-1], "tool")
        seen.clear()
        place.ask("how do I give curl a proxy?")
        assert len(seen) == 1 and "nexus docs" not in str(seen)


def test_a_project_s_skills_and_commands_do_their_work_after_trust_and_nothing_before(place: Stage) -> None:
    seen: list[Any] = []

    def model(body: Any) -> dict[str, Any]:
        seen.append(body)
        if "release" in said(body, "system") and "tool" not in [one["role"] for one in body["messages"]]:
            return calls(("skill", {"name": "release"}), ("skill", {"name": "release", "file": "references/style.md"}))
        return {"text": "Done."}

    place.script(model)
    assert place.ask("/inspect shop.py").status == 0
    first = seen.pop()
    assert "Review" not in str(first) and "release" not in str(first) and "Last commit: Add the rules" not in str(first)
    assert "teach: Explain like a teacher" in said(first, "system")
    assert place.run("trust").status == 0

    done = place.ask("publish the version")
    assert done.status == 0, done
    assert "- release: Cut a release: bump the version" in said(seen[0], "system")
    assert "CHANGELOG.md" not in said(seen[0], "system") and "The skill release may fit" in said(seen[0], "user")
    assert "Write CHANGELOG.md" in said(seen[-1], "tool") and "Short lines." in said(seen[-1], "tool")

    seen.clear()
    place.script(answers(seen, "Fine."))
    done = place.ask("/inspect", "shop.py", stdin=b"a diff\n")
    assert done.status == 0, done
    asked = said(seen[-1], "user")
    assert asked.index("/inspect shop.py") < asked.index("a diff") < asked.index("Review shop.py with care.")
    assert "Last commit: Add the rules" in asked and "Names are whole words." in asked and "All: shop.py" in asked
    assert ".claude/commands/inspect.md" in asked
    told = "\n".join(done.told)
    assert "inspect allows for this turn: bash(git diff *)" in told and "requests model haiku" in told

    (place.folder / ".claude/commands/make.md").write_text("Made: !`touch made`\n")
    assert place.run("trust").status == 0
    assert place.ask("--allow", "auto", "--price", "/make").status == 0
    assert not (place.folder / "made").exists(), "a price is asked for: nothing runs"
    assert place.ask("--allow", "auto", "/make").status == 0 and (place.folder / "made").exists()

    done = place.ask("use $teach on RULES.md, it costs $5")
    assert "Explain step by step." in said(seen[-1], "user") and 'name="teach"' in said(seen[-1], "user")
    done = place.ask("/web:button green")
    assert "Draw a button: green" in said(seen[-1], "user")
    done = place.ask("/help")
    assert "Our own help" not in said(seen[-1], "user") and "/help is a built-in command" in "\n".join(done.told)
    done = place.ask("/inspet shop.py")
    assert "Did you mean /inspect?" in "\n".join(done.told)

    (place.folder / ".claude/commands/inspect.md").write_text(REVIEW + "rm -rf\n")
    place.ask("/inspect shop.py")
    assert "Review shop.py with care" not in said(seen[-1], "user")


def test_a_guide_keeps_its_prices_and_its_shell_and_counts_arguments_as_it_says(place: Stage) -> None:
    seen: list[Any] = []
    place.script(answers(seen, "Fine."))
    price = """240 hours = $36,000; awk '{print $2, $11}'; if [ ! -f "$1" ]; then local file="$1"; fi"""
    guides = {
        "price": price,
        "zero": "zero=$0 one=$1 two=$2 all=$ARGUMENTS",
        "named": "---\narguments: [issue, prio]\n---\nissue=$issue prio=$prio one=$1 home=$HOME",
        "one": "one=$1 two=$2 three=$3 first=$ARGUMENTS[0]",
        "second": "say: !`printf 'a b\\n' | awk '{print $2}'`",
        "log": "say: !`yes deep | head -n 1` and !`yes | head -n 1; false | true`",
    }
    for name, text in guides.items():
        (place.folder / f".claude/commands/{name}.md").write_text(f"{text}\n")
    assert place.run("trust").status == 0

    def block(words: str) -> str:
        assert place.ask("--allow", "run", words).status == 0
        return said(seen[-1], "user").rpartition("<command ")[2]

    assert price in block("/price")
    assert price.replace('"$1"', '"x"') in block("/price x"), "what many older commands mean by $1"
    assert "zero=12 one=high prio two=$2 all=12 'high prio'" in block("/zero 12 'high prio'")
    assert "issue=12 prio=high prio one=high prio home=$HOME" in block("/named 12 'high prio'")
    assert "issue=12 prio= one=$1 home=$HOME" in block("/named 12")
    assert "one=12 two=high prio three=$3 first=12" in block("/one 12 'high prio'")
    assert "say: b\n" in block("/second")
    assert "say: deep and y\n[exit status 0; pipe: 1 0]" in block("/log"), "only a reader that ended first is no news"


def test_what_may_not_run_does_not_and_is_named(place: Stage) -> None:
    seen: list[Any] = []
    place.script(answers(seen, "Fine."))
    command = place.folder / ".claude/commands/deploy.md"
    command.write_text("---\ndescription: '!`touch pwned`'\n---\nState: !`touch pwned`\n")
    assert place.run("trust").status == 0
    for words in ("hello", "/help", "/deploy"):
        assert place.ask(words).status == 0
    assert not (place.folder / "pwned").exists()
    assert "State: [not run: touch pwned:" in said(seen[-1], "user")
    assert place.ask("/deploy", "--allow", "run").status == 0
    assert (place.folder / "pwned").exists()


def test_a_guide_that_is_called_and_not_active_is_named_with_its_reason(place: Stage) -> None:
    seen: list[Any] = []
    place.script(answers(seen, "Fine."))
    broken = place.folder / ".claude/commands/broken.md"
    broken.write_text("---\ndescription: >\n\tno yaml\n---\nText\n")
    told = "\n".join(place.ask("/inspect shop.py").told)
    assert "/inspect is sent as text" in told and "commands/inspect.md is not trusted; run `nexus trust`" in told
    told = "\n".join(place.ask("use $release, not $HOME").told)
    assert "$release is sent as text" in told and "HOME" not in told
    with Repl.of_stage(place, columns=140) as repl:
        repl.wait_for(lambda one: "Not active" in one.text, 30, back=False)
        repl.send("/inspect shop.py" + ENTER)
        repl.wait_for(lambda one: "trusted; run `/trust`" in one.text, 60)
    assert place.run("trust").status == 0
    told = "\n".join(place.ask("/broken").told)
    assert "/broken is sent as text" in told and "not valid YAML" in told
    assert "sent as text" not in "\n".join(place.ask("/inspect shop.py with $release, $5").told)


def test_what_waits_for_trust_is_said_once_and_again_when_it_has_changed(place: Stage) -> None:
    place.script(lambda body: {"text": "Fine."})
    waiting = "Not active in this project: 1 skill and 3 commands ("
    assert waiting in "\n".join(place.ask("hello").told)
    assert "Not active" not in "\n".join(place.ask("hello").told)
    (place.folder / ".claude/settings.json").write_text(
        '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}'
    )
    assert "1 skill, 3 commands and 1 hook (" in "\n".join(place.ask("hello").told)
    assert "Not active" not in "\n".join(place.ask("hello", "--quiet").told)
    with Repl.of_stage(place, columns=140) as repl:  # somebody else may have read the lines of a script
        repl.wait_for(lambda one: "Not active" in one.text, 30, back=False)


def test_skills_are_listed_and_checked_line_by_line(place: Stage) -> None:
    command = place.folder / ".claude/commands/inspect.md"
    command.write_text(REVIEW.replace("Bash(git diff:*)", "Bash(git diff:*), NotebookEdit"))
    checked = place.run("skill", "check")
    assert checked.status == 0, checked
    said = "inspect.md:4: allowed-tools: NotebookEdit has no effect: nexus has no such tool"
    assert said in checked.text and "git diff" not in checked.text and "inspect.md:5" not in checked.text
    assert place.run("trust").status == 0
    listed = place.run("skill", "list").text
    assert "release" in listed and "teach" in listed and "/inspect" in listed


def test_in_the_prompt_a_command_is_offered_completed_and_sent(place: Stage) -> None:
    seen: list[Any] = []
    place.script(answers(seen, "Reviewed."))
    assert place.run("trust").status == 0
    with Repl.of_stage(place, columns=140) as repl:
        repl.wait_for(lambda one: "/help is built in; to use your own, type $help" in one.text, 30, back=False)
        repl.send("/insp")
        repl.wait_for(lambda one: "Review the changes of a file" in one.text, 30)
        repl.send("ect shop.py" + ENTER)
        repl.wait_for(lambda one: "Reviewed." in one.text, 60)
    assert "Review shop.py with care." in said(seen[0], "user")
    with Repl.of_stage(place, columns=140) as repl:
        repl.send("/insp")
        repl.wait_for(lambda one: "Review the changes of a file" in one.text, 30)
        repl.send("ect shop.py" + ENTER)
        repl.wait_for(lambda one: "Reviewed." in one.text, 60)
        assert "is built in" not in repl.text, "it is told once"


def test_a_command_permits_what_its_file_names_for_the_turn_that_calls_it(place: Stage) -> None:
    commands = place.folder / ".claude/commands"
    (commands / "touch.md").write_text("---\nallowed-tools: Bash(touch:*), Write\n---\nTouch it.\n")
    settings = {"permissions": {"deny": ["Write(locked/**)"]}}
    (place.folder / ".claude/settings.json").write_text(json.dumps(settings))
    steps = [
        ("bash", {"command": "touch made"}),
        ("bash", {"command": "mkdir other"}),
        ("write_file", {"path": "written", "content": "x\n"}),
        ("write_file", {"path": "locked/a", "content": "x\n"}),
        ("bash", {"command": "touch kept", "outside": "I want to"}),
    ]

    def model(body: Any) -> dict[str, Any]:
        since = max(at for at, one in enumerate(body["messages"]) if one["role"] == "user")
        done = sum(one["role"] == "tool" for one in body["messages"][since:])
        return calls(steps[done]) if done < len(steps) else {"text": "Done."}

    place.script(model)
    place.ask("--allow", "ask", "/touch")
    assert not (place.folder / "made").exists(), "untrusted it permits nothing"
    told = place.run("trust").text
    assert "permits Bash(touch:*), Write" in " ".join(told.split()), told
    done = place.ask("--allow", "ask", "/touch")
    made = [(place.folder / name).exists() for name in ("made", "other", "written", "locked/a", "kept")]
    assert made == [True, False, True, False, False], done
    assert any("touch allows for this turn: bash(touch *), write_file" in line for line in done.told), done.told
    (place.folder / "made").unlink()
    place.ask("-c", "--allow", "ask", "again")
    assert not (place.folder / "made").exists(), "the next turn has none of it"
