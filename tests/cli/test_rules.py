"""`nexus rules`: exit status and JSON that scripts rely on, and a file whose comments stay."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from search import sample

from nexus_cli.config import trust
from nexus_cli.config.paths import places

Run = Callable[..., subprocess.CompletedProcess[bytes]]


def write(text: str) -> None:
    places().config.mkdir(parents=True, exist_ok=True)
    places().settings.write_text(text)


@pytest.mark.parametrize(
    ("words", "status", "decision", "profile"),
    sample(
        [
            (["ls"], 0, "allow", "read"),
            (["npm run x"], 1, "ask", "write"),
            (["git -C . push"], 3, "deny", "write"),
            (["--allow", "run", "npm run x"], 0, "allow", "write"),
            (["--allow", "all", "npm run x"], 0, "allow", "none"),
            (["--allow", "all", "git push"], 3, "deny", "none"),
            (["npm test && ls"], 0, "allow", "write"),
        ],
        3,
    ),
)
def test_a_test_ends_with_the_status_of_its_decision(
    nexus: Run, words: list[str], status: int, decision: str, profile: str
) -> None:
    write('[rules]\nallow = ["bash(npm test *)"]\ndeny = ["bash(git push *)"]\n')
    done = nexus("rules", "test", "--json", *words)
    found = json.loads(done.stdout)
    assert (done.returncode, found["decision"], found["profile"]) == (status, decision, profile)
    keys = {"command", "decision", "rule", "from", "origin"}
    assert found["why"] and found["parts"] and set(found["parts"][0]) == keys
    assert not done.stderr
    text = nexus("rules", "test", *words)
    assert text.returncode == status and text.stdout.decode().startswith(f"{decision}: ")


def test_a_test_runs_nothing_and_shows_nothing_hidden(nexus: Run, tmp_path: Path) -> None:
    done = nexus("rules", "test", "touch made; echo \x1b[8m\u202e")
    assert done.returncode == 1 and not (tmp_path / "made").exists()
    assert b"\x1b" not in done.stdout and "\u202e" not in done.stdout.decode()


@pytest.mark.matrix
def test_a_rule_may_hold_here_alone(nexus: Run, tmp_path: Path) -> None:
    write('# mine\n[rules]\nallow = ["bash(make *)"]\n\n[ui]\ntheme = "dark"\n')
    assert nexus("rules", "add", "--here", "allow", "bash(npm test *)").returncode == 0
    assert nexus("rules", "add", "--here", "allow", "bash(make *)").returncode == 0
    assert b"already" in nexus("rules", "add", "--here", "allow", "bash(make *)").stderr
    listed = json.loads(nexus("rules", "list", "--json").stdout)["rules"]
    here = next(row["folder"] for row in listed if row["folder"])
    assert tmp_path.is_relative_to(here)
    assert [(row["rule"], row["folder"]) for row in listed] == [
        ("bash(make *)", None),
        ("bash(npm test *)", here),
        ("bash(make *)", here),
    ]
    lines = nexus("rules", "list").stdout.decode().splitlines()
    assert ["everywhere" in line for line in lines] == [True, False, False]
    assert nexus("rules", "test", "npm test").returncode == 0
    assert nexus("rules", "remove", "bash(npm test *)").returncode == 0
    assert nexus("rules", "test", "npm test").returncode == 1
    assert nexus("config", "show", "--origin").returncode == 0
    assert "# mine" in places().settings.read_text() and 'theme = "dark"' in places().settings.read_text()


def test_rules_are_added_listed_and_removed_and_comments_stay(nexus: Run) -> None:
    write('# mine\n[rules]\n# tests\nallow = [\n    "bash(make *)",  # build\n]\n')
    assert nexus("rules", "add", "allow", "bash(npm test *)").returncode == 0
    assert nexus("rules", "add", "deny bash(git push *)").returncode == 0
    assert b"already" in nexus("rules", "add", "deny", "bash(git push *)").stderr
    listed = json.loads(nexus("rules", "list", "--json").stdout)
    assert [(row["decision"], row["rule"]) for row in listed["rules"]] == [
        ("deny", "bash(git push *)"),
        ("allow", "bash(make *)"),
        ("allow", "bash(npm test *)"),
    ]
    assert all(row["file"] == str(places().settings) and row["line"] > 3 for row in listed["rules"])
    text = nexus("rules", "list").stdout.decode()
    assert "bash(make *)" in text and "config.toml line 5" in text
    assert nexus("rules", "remove", "bash(make *)").returncode == 0
    assert nexus("rules", "remove", "deny", "bash(git push *)").returncode == 0
    left = places().settings.read_text()
    assert "# mine" in left and "# tests" in left and "bash(npm test *)" in left and "bash(make" not in left
    done = nexus("rules", "remove", "bash(make *)")
    assert done.returncode == 2 and b"there is no such rule" in done.stderr
    assert b"No rules" not in nexus("rules", "list").stdout


@pytest.mark.matrix
def test_a_first_rule_makes_the_file(nexus: Run) -> None:
    assert b"No rules" in nexus("rules", "list").stdout
    assert nexus("rules", "add", "allow", "bash(npm test *)").returncode == 0
    assert nexus("rules", "test", "npm test").returncode == 0


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("text", "facts"),
    [('deny = ["bash(x"]', ("line 2", "bash(x")), ("deny = 5", ("line 2", "a list of quoted strings"))],
)
def test_a_file_with_a_wrong_rule_is_exit_2_with_its_line(nexus: Run, text: str, facts: tuple[str, ...]) -> None:
    write(f"[rules]\n{text}\n")
    for words in (["list"], ["test", "ls"]):
        done = nexus("rules", *words)
        said = done.stderr.decode()
        assert done.returncode == 2 and said.count("\n") == 1 and all(fact in said for fact in ("config.toml", *facts))


@pytest.mark.matrix
def test_a_projects_allow_rule_has_no_effect_and_says_so(nexus: Run, tmp_path: Path) -> None:
    (tmp_path / ".nexus").mkdir()
    (tmp_path / ".nexus" / "config.toml").write_text('[rules]\nallow = ["bash(make *)"]\ndeny = ["bash(ls *)"]\n')
    assert nexus("rules", "test", "ls").returncode == 0, "not trusted"
    trust.trust(tmp_path)
    done = nexus("rules", "test", "ls")
    assert done.returncode == 3 and b"rules.allow: a project can only tighten" in done.stderr
    assert nexus("rules", "test", "make").returncode == 1
    assert b"bash(ls *)" in nexus("rules", "list").stdout
    assert b"this rule comes from" in nexus("rules", "remove", "bash(ls *)").stderr


def test_rules_are_settings_as_others(nexus: Run) -> None:
    assert nexus("config", "set", "rules.deny", '["bash(a *)", "bash(b *)"]').returncode == 0
    assert nexus("config", "get", "rules.deny").stdout == b'["bash(a *)", "bash(b *)"]\n'
    assert json.loads(nexus("config", "show", "--json").stdout)["settings"]["rules.deny"]["value"] == [
        "bash(a *)",
        "bash(b *)",
    ]
