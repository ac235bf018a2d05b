"""The job: "you broke it and did not notice": what an edit breaks is told in the same step, and nothing else.

A small project with ruff's settings and one old finding; checks that hang, print 60 MB, write, or are missing.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program.stage import PRICED, QUICK, Stage, calls, stage
from programs import need
from search import sample
from server.received import tool_results

RUFF = Path(sys.executable).with_name("ruff")
OLD = "import os\n\n\ndef price(net):\n    return net * 1.19\n"
APPLIED = "Edit applied. "


class Editor:
    """A model that makes one edit a step, and then ends."""

    def __init__(self, *edits: tuple[str, str, str]) -> None:
        self.edits = edits
        """File, old text ("" writes the file) and new text of each."""

    def __call__(self, body: Any) -> dict[str, Any]:
        done = sum(one["role"] == "tool" for one in body["messages"])
        if done >= len(self.edits):
            return {"text": "Done."}
        path, old, new = self.edits[done]
        if old:
            return calls(("edit_file", {"path": path, "edits": [{"old": old, "new": new}]}))
        return calls(("write_file", {"path": path, "content": new}))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path, None) as made:
        programs = tmp_path / "bin"
        programs.mkdir()
        shutil.copy2(RUFF, programs / "ruff")
        made.environment["PATH"] = f"{programs}:{made.environment['PATH']}"
        (made.folder / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n")
        (made.folder / "shop.py").write_text(OLD)
        yield made


def test_a_new_finding_is_told_once_and_an_old_one_never(place: Stage) -> None:
    place.script(
        Editor(
            ("shop.py", "net * 1.19", "net * RATE"),
            ("shop.py", "def price", "# The price.\ndef price"),
            ("shop.py", "net * RATE", "net * 1.19"),
            ("shop.py", "net * 1.19", "net * RATE"),
        )
    )
    done = place.ask("--allow", "edit", "--json", "change the price")
    assert done.status == 0 and done.result["files_changed"] == ["shop.py"], done
    broken, moved, mended, again = place.results
    assert APPLIED + "1 new finding of `ruff check" in broken and "shop.py:5:18: F821 Undefined name `RATE`" in broken
    assert "F401" not in broken + moved + mended + again, "`os` was not used before either"
    assert APPLIED not in moved + mended and "fix" not in broken.replace("[*]", "").lower()
    assert APPLIED + "1 new finding of" in again
    line = "1 new finding of `ruff check --quiet…`: shop.py:5:18: F821 Undefined name `RATE`"
    assert any(line in one for one in done.told), done.told
    assert not (place.folder / ".ruff_cache").exists()
    assert place.run("replay").status == 0


def test_a_whole_project_is_looked_at_before_its_first_edit(place: Stage) -> None:
    need("go")
    (place.folder / "go.mod").write_text("module shop\n\ngo 1.18\n")
    (place.folder / "old.go").write_text('package shop\n\nimport "fmt"\n\nfunc A() { fmt.Printf("%d\\n", "old") }\n')
    (place.folder / "new.go").write_text('package shop\n\nimport "fmt"\n\nfunc B() { fmt.Println() }\n')
    place.script(Editor(("new.go", "fmt.Println()", 'fmt.Printf("%s\\n", 3)')))
    assert place.ask("--allow", "edit", "print three").status == 0
    (result,) = place.results
    assert APPLIED + "1 new finding of" in result and "new.go:5" in result and "old.go" not in result


@pytest.mark.matrix
def test_a_module_that_the_edited_file_lacks_is_a_finding(place: Stage) -> None:
    command = "python3 -c 'import shop' 2>&1 | tail -n 1 | grep Error && exit 1; exit 0"
    place.settings(f"{QUICK}{PRICED}[[check]]\nglob = '*.py'\ncommand = {json.dumps(command)}\n")
    place.script(Editor(("shop.py", "import os", "import no_such_module")))
    assert place.ask("--allow", "edit", "change the import").status == 0
    assert APPLIED in place.results[-1] and "ModuleNotFoundError: No module named" in place.results[-1]


def test_many_findings_are_cut_at_twenty_and_the_rest_is_a_drop(place: Stage) -> None:
    place.script(Editor(("new.py", "", "".join(f"print(name_{at})\n" for at in range(35)))))
    done = place.ask("--allow", "edit", "--json", "write it")
    (result,) = place.results
    assert APPLIED + "35 new findings of" in result and "name_19" in result and "name_20" not in result
    (drop,) = done.result["drops"]
    assert f"and 15 more: recall {drop['id']}" in result
    assert "name_34" in place.run("drops", "show", drop["id"]).text


def test_a_project_brings_checks_only_when_it_is_trusted(place: Stage) -> None:
    (place.folder / ".nexus").mkdir()
    own = '[[check]]\nglob = "*.txt"\ncommand = "echo too long: {files}; exit 1"\n'
    (place.folder / ".nexus" / "config.toml").write_text(own)
    place.script(Editor(("a b.txt", "", "x")))
    assert place.ask("--allow", "edit", "write").status == 0
    assert APPLIED not in place.results[-1]
    assert place.run("trust", "--yes").status == 0 or place.run("trust", stdin=b"y\n").status == 0
    place.script(Editor(("c d.txt", "", "x")))
    done = place.ask("--allow", "edit", "write")
    assert "too long: c d.txt" in place.results[-1], done


@pytest.mark.parametrize(
    ("command", "why"),
    sample(
        [
            ("sleep 60; echo {files}", "it took longer than 0.5 s, the last of 2 failures"),
            ("head -c 60000000 /dev/zero | tr '\\\\0' x; exit 1", "it printed 60 MB, the last of 2 failures"),
            ("no-such-program {files}", "a program could not be started ("),
            ("python3 -m no_such_module {files}", "a program could not be started ("),
        ],
        4,
    ),
)
def test_a_check_that_is_broken_twice_is_off_and_said_once(place: Stage, command: str, why: str) -> None:
    place.settings(QUICK + PRICED + f"[[check]]\nglob = '*.md'\ncommand = {json.dumps(command)}\nseconds = 0.5\n")
    if "60 MB" in why:
        place.settings(QUICK + PRICED + f'[[check]]\nglob = "*.md"\ncommand = "{command}"\nseconds = 20\n')
    place.script(Editor(*((f"{at}.md", "", "x") for at in range(4))))
    done = place.ask("--allow", "edit", "write")
    assert done.status == 0 and not any(APPLIED in one for one in place.results)
    assert [line for line in done.told if " is off: " in line] == [line for line in done.told if why in line], done.told
    assert sum(why in line for line in done.told) == 1, done.told


WHOLE = "grep -n BAD *.ts && exit 1; exit 0"
SPY = """import os, time
from nexus_cli.engine.calls import edit_checks
edit_checks.PATIENCE = {patience}
run = edit_checks.run_process
def logged(argv, **more):
    done = run(argv, **more)
    with open({log!r}, "a") as file:
        print("looked", file=file)
    return done
edit_checks.run_process = logged
"""


def whole_check(place: Stage, command: str) -> None:
    place.settings(f"{QUICK}{PRICED}[[check]]\nglob = '*.ts'\ncommand = {json.dumps(command)}\nseconds = 300\n")
    (place.folder / "a.ts").write_text("let a = 1\n")
    (place.folder / "old.ts").write_text("BAD\n")


def test_a_slow_check_holds_no_edit_and_tells_what_it_found_a_step_later(place: Stage) -> None:
    """It looks until the test lets it end: the edit is made and the next request sent meanwhile."""
    whole_check(place, f"until [ -e go ]; do sleep 0.05; done; {WHOLE}")
    edit = calls(("edit_file", {"path": "a.ts", "edits": [{"old": "let a", "new": "BAD a"}]}))
    spy = SPY.format(patience=0.3, log=str(place.home / "log"))
    before = list[str]()

    def model(body: Any) -> Any:
        results = tool_results(body)
        if not results:
            return edit
        if len(results) == 1:
            before[:] = results
            assert not (place.home / "log").exists(), "the check still looks"
            (place.folder / "go").touch()
        has_come = any("a.ts:1" in one for one in results)
        return {"text": "Done."} if has_come or len(results) > 200 else calls(("bash", {"command": "sleep 0.1"}))

    place.script(model)
    done = place.ask("--allow", "auto", "change a", bug=spy)
    assert done.status == 0 and "BAD a = 1" in (place.folder / "a.ts").read_text(), done
    assert "is slow: findings, if any, come with a later result" in before[0] and "a.ts:1" not in before[0], before
    later = "\n".join(place.results[1:])
    assert "Edit applied. 1 finding of" in later and "a.ts:1:BAD a = 1" in later, later
    assert "old.ts" not in later, later


@pytest.mark.matrix
def test_findings_that_no_request_has_told_are_told_once_when_the_session_is_resumed(place: Stage) -> None:
    """The turn ends at its limit right behind the edit."""
    edit, bodies = Editor(("shop.py", "net * 1.19", "net * RATE")), list[Any]()

    def model(body: Any) -> Any:
        bodies.append(body)
        return edit(body)

    place.script(model)
    assert place.ask("--allow", "edit", "--max-steps", "1", "change the price").status == 3 and len(bodies) == 1
    for words in ("go on", "and on"):
        assert place.ask("-c", "--max-steps", "1", words).status == 0
        told = str(bodies[-1]["messages"])
        assert told.count("1 new finding of `ruff check") == 1 == told.count("F821 Undefined name"), told


@pytest.mark.matrix
def test_a_check_that_was_slow_tells_what_the_next_edit_brought_too(place: Stage) -> None:
    for name in "ab":
        (place.folder / f"{name}.txt").write_text("ok\n")
    place.settings(f"{QUICK}{PRICED}[[check]]\nglob = '*.txt'\ncommand = {json.dumps(f'sleep 0.8; {LINES}')}\n")
    log = place.home / "log"
    edits = [
        calls(("edit_file", {"path": f"{name}.txt", "edits": [{"old": "ok", "new": text}]}))
        for name, text in (("a", "fine"), ("b", "BAD"))
    ]

    def model(body: Any) -> Any:
        results = tool_results(body)
        looks = log.read_text().count("looked") if log.exists() else 0
        if edits and (not results or looks == 2):
            return edits.pop(0)
        has_come = any("b.txt:1:BAD" in one for one in results)
        wait = calls(("bash", {"command": f"sleep 0.3; echo {len(results)}"}))
        return {"text": "Done."} if has_come or len(results) > 16 else wait

    place.script(model)
    assert place.ask("--allow", "auto", "change", bug=SPY.format(patience=0.2, log=str(log))).status == 0
    assert "b.txt:1:BAD" in "\n".join(place.results), place.results


def test_the_model_is_told_when_a_check_looks_no_more(place: Stage) -> None:
    place.settings(QUICK + PRICED + "[[check]]\nglob = '*.md'\ncommand = 'sleep 60; echo {files}'\nseconds = 0.5\n")
    place.script(Editor(*((f"{at}.md", "", "x") for at in range(3))))
    assert place.ask("--allow", "edit", "write").status == 0
    assert (
        sum(
            "off (it took longer than 0.5 s, the last of 2 failures): later edits are not checked" in one
            for one in place.results
        )
        == 1
    )


def test_a_program_that_checks_would_not_find_is_no_check(place: Stage) -> None:
    (place.folder.parent / "bin" / "ruff").unlink()
    place.environment["PATH"] = f"{RUFF.parent}:/usr/bin:/bin"  # the environment of nexus, hidden from commands
    place.script(Editor(("shop.py", "net * 1.19", "net * RATE")))
    done = place.ask("--allow", "edit", "change")
    assert done.status == 0 and not [line for line in done.told if "check" in line], done.told


LINES = 'for f in {files}; do grep -n BAD "$f" | sed "s|^|$f:|" | grep . && s=1; done; exit ${s:-0}'
STYLISH = 'for f in {files}; do grep -q BAD "$f" && echo "$f" && s=1; grep -n BAD "$f"; done; exit ${s:-0}'


@pytest.mark.parametrize(
    ("command", "files", "edits", "new"),
    sample(
        [
            pytest.param(
                LINES,
                {"a.txt": "one", "data.txt": "BAD\nx"},
                [("data.txt", "x", "y"), ("a.txt", "one", "two"), ("data.txt", "y", "z")],
                [[], [], []],
                id="a name within another name",
            ),
            pytest.param(
                LINES,
                {"0001.txt": "BAD", "0002.txt": "one"},
                [("0001.txt", "BAD", "x\nBAD"), ("0002.txt", "one", "x\nBAD")],
                [[], ["0002.txt:2:BAD"]],
                id="names that differ in their digits",
            ),
            pytest.param(
                STYLISH,
                {"one.txt": "ok", "two.txt": "ok"},
                [
                    ("one.txt", "ok", "BAD"),
                    ("one.txt", "BAD", "ok"),
                    ("two.txt", "ok", "BAD"),
                    ("one.txt", "ok", "BAD"),
                ],
                [["one.txt", "1:BAD"], [], ["two.txt", "1:BAD"], ["one.txt", "1:BAD"]],
                id="lines without names",
            ),
        ],
        3,
    ),
)
def test_findings_of_one_file_are_not_those_of_another(
    place: Stage, command: str, files: dict[str, str], edits: list[tuple[str, str, str]], new: list[list[str]]
) -> None:
    place.settings(f"{QUICK}{PRICED}[[check]]\nglob = '*.txt'\ncommand = {json.dumps(command)}\n")
    for name, text in files.items():
        (place.folder / name).write_text(f"{text}\n")
    place.script(Editor(*edits))
    assert place.ask("--allow", "edit", "change").status == 0
    assert [re.findall(r"^\[nexus: (.*)\]$", one.partition(APPLIED)[2], re.M) for one in place.results] == new, (
        place.results
    )


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("command", "line"), sample([(STYLISH, "1:BAD"), ("grep -n BAD *.txt && exit 1", "2.txt:1:BAD")], 2)
)
def test_a_finding_mended_in_the_same_step_hides_none_in_another_file(place: Stage, command: str, line: str) -> None:
    place.settings(f"{QUICK}{PRICED}[[check]]\nglob = '*.txt'\ncommand = {json.dumps(command)}\n")
    (place.folder / "1.txt").write_text("BAD\n")
    (place.folder / "2.txt").write_text("ok\n")
    swapped = (("1.txt", "BAD", "ok"), ("2.txt", "ok", "BAD"))
    edits = [("edit_file", {"path": path, "edits": [{"old": old, "new": new}]}) for path, old, new in swapped]
    place.script(lambda body: {"text": "Done."} if body["messages"][-1]["role"] == "tool" else calls(*edits))
    assert place.ask("--allow", "edit", "change").status == 0
    assert f"[nexus: {line}]" in place.results[-1], place.results


def test_a_check_can_change_nothing_and_deny_rules_hold(place: Stage) -> None:
    checks = (
        '[[check]]\nglob = "*.md"\ncommand = "echo x >> {files}; touch seen; echo bad {files}; exit 1"\n'
        '[[check]]\nglob = "*.md"\ncommand = "cat {files}; exit 1"\n'
    )
    place.settings(f'{QUICK}{PRICED}[rules]\ndeny = ["bash(cat *)"]\n{checks}')
    place.script(Editor(("a.md", "", "kept\n")))
    done = place.ask("--allow", "edit", "write")
    (result,) = place.results
    assert "bad a.md" in result and "kept" not in result
    assert (place.folder / "a.md").read_text() == "kept\n" and not (place.folder / "seen").exists()
    assert any("is off: " in line and "deny bash(cat *)" in line for line in done.told), done.told


FREE = "echo 'it' {files} \\' {files}"


def test_a_name_is_one_word_and_never_runs(place: Stage) -> None:
    checks = "[[check]]\nglob = '*.txt'\ncommand = 'printf :%s: {files}; exit 1'\n"
    place.settings(f'{QUICK}{PRICED}[rules]\ndeny = ["bash(printf :%s: ./-secret.txt)"]\n{checks}')
    name = "-a $(echo PWNED) `id`;'\"*.txt"
    place.script(Editor((name, "", "x\n")))
    assert place.ask("--allow", "edit", "write").status == 0
    assert f"[nexus: :./{name}:]" in place.results[-1], place.results
    place.script(Editor(("-secret.txt", "", "x\n")))
    denied = place.ask("--allow", "edit", "write")
    assert any("is off: " in line and "deny bash(" in line for line in denied.told), denied.told


@pytest.mark.parametrize(
    "command", sample(['cat "{files}"', "cat '{files}'", "sh -c 'cat {files}'", 'echo \\" "x {files}"'], 4)
)
def test_files_between_quotes_are_refused(place: Stage, command: str) -> None:
    place.settings(f"{QUICK}{PRICED}[[check]]\nglob = '*.txt'\ncommand = {json.dumps(command)}\n")
    done = place.ask("hello")
    assert done.status == 2 and len(done.told) == 1 and "{files}" in done.told[0], done.told
    place.settings(f"{QUICK}{PRICED}[[check]]\nglob = '*.txt'\ncommand = {json.dumps(FREE)}\n")
    place.script(lambda body: {"text": "Hi."})
    assert place.ask("hello").status == 0


def test_no_check_runs_when_the_settings_say_none(place: Stage) -> None:
    place.settings(f"check = []\n{QUICK}{PRICED}")
    place.script(Editor(("shop.py", "net * 1.19", "net * RATE")))
    assert place.ask("--allow", "edit", "change").status == 0
    assert APPLIED not in place.results[-1]
    assert "check = []" in place.run("config", "show").text


def test_a_wrong_table_is_refused_with_its_line(place: Stage) -> None:
    place.settings('[[check]]\nglob = "*.py"\n')
    done = place.ask("hello")
    assert done.status == 2 and "line 1: check: `command` is missing" in done.told[0], done.told
