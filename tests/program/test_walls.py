"""The program with rules and walls: what runs at each level, what is refused, what a command can reach and see."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from program.stage import PRICED, QUICK, Seen, calls, clean, end, play, stage, until
from program.terminal_run import TerminalRun

KEY = "sk-nobody"
SESSION = ("ask", "--stream-json", "--allow", "read", "make two files")


def bash(command: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "bash", {"command": command, **more}


def levels(root: Path) -> dict[str, Any]:
    """One batch of calls at each level, nobody to ask."""
    shown: dict[str, Any] = {}
    for level in ("ask", "edit", "auto", "all"):
        with stage(root / level) as place:
            out = place.home / "out"
            batch = calls(
                bash("ls"),
                bash("touch made"),
                bash(f"touch {out}"),
                bash("touch never"),
                bash("touch net", network=True),
                bash("touch beyond", outside="it must"),
                bash("env"),
                ("write_file", {"path": "edited", "content": "x"}),
            )
            place.script([batch, "done"])
            place.settings(QUICK + PRICED + '[rules]\ndeny = ["bash(touch never)"]\n')
            done = place.ask("--json", "--allow", level, "hi", env={"GH_TOKEN": "hunter2"})
            shown[level] = {
                "done": done,
                "left": sorted(path.name for path in place.folder.iterdir()),
                "out": out.exists(),
                "results": place.results,
                "refused": {row["subject"]: row["level"] for row in done.result["denied"]},
            }
    return shown


def no_sandbox(root: Path) -> dict[str, Any]:
    """`run` where there is none."""
    script: list[Any] = [calls(bash("ls")), calls(("write_file", {"path": "a", "content": "x"}), bash("ls -a")), "done"]
    with stage(root, script) as place:
        place.settings(QUICK + PRICED + '[sandbox]\nbackend = "off"\n')
        done = place.ask("--json", "--allow", "run", "hi")
        return {"done": done, "left": [path.name for path in place.folder.iterdir()]}


def always(root: Path) -> dict[str, Any]:
    """A person who says always, in a terminal; the lines go to a file. Then the same without one."""
    script: list[Any] = [calls(bash("touch one")), calls(bash("touch two")), "done"]
    with stage(root, script) as place:
        environment = {**place.environment, "TERM": "xterm-256color"}
        with open(place.folder / "lines", "wb") as file:
            child = TerminalRun(*SESSION, env=environment, cwd=place.folder, stdout=file.fileno())
        with child:
            child.expect("what to do instead")
            question = str(child.before)
            child.send("a\r")
            rest = child.finish()
        lines = [json.loads(line) for line in (place.folder / "lines").read_text().splitlines()]
        stored = (place.nexus_home / "config" / "config.toml").read_text()
        place.script([calls(bash("touch three")), "done"])
        done = place.ask("--json", "hi")
        left = sorted(path.name for path in place.folder.iterdir())
        return {"question": question, "rest": rest, "lines": lines, "stored": stored, "done": done, "left": left}


def killed(root: Path) -> dict[str, Any]:
    """nexus is killed while a command runs that planted instructions; then it is started again."""
    plant = "mkdir -p .vscode; echo EVIL | tee AGENTS.md .vscode/tasks.json; touch planted; sleep 60"
    with stage(root, [calls(bash(plant)), "done", "and done"]) as place:
        child = place.begin("ask", "--allow", "run", "hi")
        try:
            assert until(lambda: (place.folder / "planted").exists(), 120)
            child.send_signal(signal.SIGKILL)
            child.wait(timeout=120)
        finally:
            end(child)
        there = (place.folder / "AGENTS.md").exists()
        done = place.ask("--allow", "read", "hello")
        left = [name for name in ("AGENTS.md", ".vscode/tasks.json") if (place.folder / name).exists()]
        return {"there": there, "done": done, "left": left, "sent": str(place.server.requests[-1].body)}


def changed(root: Path) -> dict[str, Any]:
    """A command that plants a hook and a repository."""
    words = "echo x > AGENTS.md; git init -q sub; git -C sub config core.pager x"
    with stage(root) as place:
        place.script([calls(bash(words), bash(f"touch {place.home}/out | cat")), "done"])
        return {"done": place.ask("--json", "--allow", "run", "hi"), "results": place.results}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return play(tmp_path_factory.mktemp, levels, no_sandbox, always, killed, changed)


@pytest.mark.parametrize(
    ("level", "left", "refused"),
    [
        ("ask", [], ["made", "out", "never", "net", "beyond", "edited"]),
        ("edit", ["edited"], ["made", "out", "never", "net", "beyond"]),
        ("auto", ["edited", "made"], ["never", "net", "beyond"]),
        ("all", ["beyond", "edited", "made", "net"], ["never"]),
    ],
)
def test_what_a_level_covers_runs_and_the_rest_is_refused(
    seen: Seen, level: str, left: list[str], refused: list[str]
) -> None:
    shown = seen["levels"][level]
    assert shown["done"].status == 0 and clean(shown["done"]), shown["done"]
    assert shown["left"] == left and shown["out"] == (level == "all")
    assert [subject.split("/")[-1].split()[-1] for subject in shown["refused"]] == refused
    needed = {"edited": "edit", "made": "auto", "never": None, "net": None, "beyond": None}
    for subject, enough in shown["refused"].items():
        assert enough == needed.get(subject.split()[-1], "auto")


@pytest.mark.parametrize("level", ["ask", "edit", "auto", "all"])
def test_no_command_sees_a_key_and_the_model_is_told_which_names_are_missing(seen: Seen, level: str) -> None:
    first, *_, last, _ = seen["levels"][level]["results"]
    assert "[sandbox: " not in first, "a command that asks for no variable misses none"
    assert "[sandbox: without GH_TOKEN, OPENAI_API_KEY (" in last
    assert KEY not in last and "hunter2" not in last and "NEXUS_HOME=" in last


def test_a_command_that_met_a_wall_says_so_and_that_nobody_can_be_asked(seen: Seen) -> None:
    run, everything = (seen["levels"][level]["results"][2] for level in ("auto", "all"))
    assert (
        "[sandbox: write to " in run and "refused; nobody can be asked to allow it]" in run and "[exit status 1]" in run
    )
    assert everything == "[exit status 0]" or "(no output)" in everything


@pytest.mark.matrix
def test_a_wall_that_a_pipe_hides_is_told_too(seen: Seen) -> None:
    piped = seen["changed"]["results"][1]
    assert "[sandbox: write to " in piped and "/out refused; " in piped and "[exit status 0; pipe: 1 0]" in piped


def test_without_a_sandbox_run_is_edit_and_that_is_told_once(seen: Seen) -> None:
    shown = seen["no_sandbox"]
    assert shown["left"] == ["a"]
    refused = shown["done"].result["denied"]
    assert [(row["level"], row["option"]) for row in refused] == [
        (None, "--rule 'bash(ls)'"),
        (None, "--rule 'bash(ls -a)'"),
    ]
    assert sum("No sandbox" in line for line in shown["done"].told) == 1


def test_always_is_shown_stored_told_and_holds_in_the_next_session(seen: Seen) -> None:
    shown = seen["always"]
    assert all(words in shown["question"] for words in ("session: touch *", "always here", "sandboxed"))
    assert re.search(r'\[rules\."/[^"]+"\]\nallow = \["bash\(touch \*\)"\]\n$', shown["stored"])
    assert "nexus rules remove" in shown["rest"]
    asks = [line["question"] for line in shown["lines"] if line["type"] == "approval.ask"]
    assert [(one["profile"], one["rule"], one["stores"]) for one in asks] == [("write", "", ["bash(touch *)"])]
    assert asks[0]["parts"] == [{"command": ["touch", "one"], "decision": "ask", "rule": None, "from": "level ask"}]
    assert [line["answer"] for line in shown["lines"] if line["type"] == "approval.answer"] == [
        {"answer": "allow", "always": True, "stored": True}
    ]
    assert shown["left"] == ["lines", "one", "three", "two"] and shown["done"].result["denied"] == []


@pytest.mark.matrix
def test_a_mistyped_deny_rule_is_told_and_refuses_level_all(tmp_path: Path) -> None:
    with stage(tmp_path, [calls(bash("touch made")), "done"]) as place:
        place.settings(QUICK + PRICED + '[rules]\ndeny = ["bahs(touch *)"]\n')
        guarded = place.ask("--allow", "run", "hi")
        unguarded = place.ask("--json", "--allow", "all", "hi")
        assert guarded.status == 0 and any(
            "config.toml line" in line and "Did you mean bash" in line for line in guarded.told
        )
        assert unguarded.status == 2 and unguarded.result["error"]["kind"] == "config"
        assert "does not name a tool" in unguarded.result["error"]["message"] and not (place.folder / "made").exists()


@pytest.mark.matrix
def test_an_allow_rule_for_a_host_lets_fetch_reach_its_pages(tmp_path: Path) -> None:
    urls = ("https://docs.invalid/3/", "http://docs.invalid/3/", "https://other.invalid/")
    with stage(tmp_path, [calls(*(("fetch", {"url": url}) for url in urls)), "done"]) as place:
        assert place.run("rules", "add", "allow", "fetch(docs.invalid)").status == 0
        done = place.ask("--allow", "edit", "--json", "hi")
        named, plain, other = place.results
        assert "docs.invalid cannot be resolved" in named, named
        assert "not permitted" in plain and "not permitted" in other and len(done.result["denied"]) == 2


@pytest.mark.matrix
def test_what_a_killed_nexus_let_a_command_plant_is_gone_before_the_next_start_reads_it(seen: Seen) -> None:
    shown = seen["killed"]
    assert shown["there"] and shown["left"] == [] and "EVIL" not in shown["sent"]
    assert b"AGENTS.md: removed" in shown["done"].stderr and shown["done"].status == 0


@pytest.mark.matrix
def test_the_person_sees_what_was_put_back_and_which_repository_runs_programs(seen: Seen) -> None:
    done = seen["changed"]["done"]
    assert b"sandbox: AGENTS.md: removed" in done.stderr
    assert b"sandbox: sub: new repository" in done.stderr
