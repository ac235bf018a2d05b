"""`nexus trust` in a process: what it shows, what it changes, and what the other commands make of it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nexus_cli.cli import app, shell_command

Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / ".nexus"
    (folder / "recipes").mkdir(parents=True)
    (folder / "config.toml").write_text('model = "openai/x"\nallow = "all"\n[limits]\nmax_steps = 7\n')
    (folder / "recipes" / "careful.toml").write_text("[limits]\nmax_steps = 3\n")
    (folder / "mcp.json").write_text("{}")
    return tmp_path


def test_trust_shows_what_would_take_effect_and_lets_it(nexus: Run, project: Path) -> None:
    untrusted = nexus("config", "get", "limits.max_steps")
    assert untrusted.stdout == b"200\n" and untrusted.stderr.count(b"\n") == 1
    assert b"which are not in effect; run `nexus trust`" in untrusted.stderr
    done = nexus("trust")
    text = done.stdout.decode()
    assert done.returncode == 0 and not done.stderr
    for line in (
        "limits.max_steps = 7: instead of 200",
        "allow = all: no effect (your setting is ask)",
        "model: ignored, because a project cannot set it",
        ".nexus/recipes/careful.toml",
        ".nexus/mcp.json",
        "Trusted. Active: settings, recipes.",
    ):
        assert line in text
    assert nexus("config", "get", "limits.max_steps").stdout == b"7\n"
    shown = nexus("config", "show", "--origin").stdout.decode()
    assert f"# {project / '.nexus' / 'config.toml'}" in next(row for row in shown.splitlines() if "max_steps" in row)
    assert nexus("config", "get", "allow").stdout == b"ask\n"


@pytest.mark.matrix
@pytest.mark.parametrize("line", [["show", "--json"], ["--json", "show"]])
def test_trust_show_shows_the_same_and_trusts_nothing(nexus: Run, project: Path, line: list[str]) -> None:
    shown = json.loads(nexus("trust", *line).stdout)
    assert (shown["state"], nexus("config", "get", "limits.max_steps").stdout) == ("untrusted", b"200\n")
    assert json.loads(nexus("trust", str(project), "--json").stdout) == shown | {"state": "trusted"}


@pytest.mark.parametrize(("answer", "state"), [("y", "trusted"), ("n", "untrusted")])
def test_in_a_terminal_json_asks_too_and_stdout_is_the_object(
    project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, answer: str, state: str
) -> None:
    monkeypatch.setattr(
        shell_command, "_find_confirm", lambda: lambda question: question == "Trust it?" and answer == "y"
    )
    assert app.run(["trust", str(project), "--json"]) == 0
    shown, asked = capfd.readouterr()
    assert json.loads(shown)["state"] == state
    assert "limits.max_steps = 7: instead of 200" in asked
    assert ("nothing was changed" in asked) is (state == "untrusted")


def test_trust_is_revoked_and_gone_after_a_change(nexus: Run, project: Path) -> None:
    assert json.loads(nexus("trust", "--json").stdout)["state"] == "trusted"
    (project / ".nexus" / "SOUL.md").write_text("Be kind.")
    changed = nexus("config", "get", "limits.max_steps")
    assert changed.stdout == b"7\n" and b"this project has .nexus/SOUL.md, which is not in effect" in changed.stderr
    (project / ".nexus" / "config.toml").write_text('model = "openai/x"\n[limits]\nmax_steps = 8\n')
    changed = nexus("config", "get", "limits.max_steps")
    assert changed.stdout == b"200\n" and b"changed since you trusted it" in changed.stderr
    (project / "deep").mkdir()
    (project / ".git").mkdir()
    value = json.loads(nexus("trust", "deep", "--json").stdout)
    assert value["project"] == str(project) and value["state"] == "trusted" and value["refused"] == ["model"]
    revoked = nexus("trust", "--revoke")
    assert (revoked.returncode, revoked.stdout) == (0, b"") and b"is no longer trusted" in revoked.stderr
    again = json.loads(nexus("trust", "--revoke", "--json").stdout)
    assert (again["revoked"], again["state"]) == (False, "untrusted")


def test_what_is_different_since_the_last_time_is_shown_item_by_item(nexus: Run, project: Path) -> None:
    guard, settings = {"type": "command", "command": "sh guard.sh"}, project / ".claude" / "settings.json"
    settings.parent.mkdir()
    (project / "guard.sh").write_text("echo careful\n")

    def says(condition: str) -> None:
        settings.write_text(json.dumps({"hooks": {"PreToolUse": [{"hooks": [guard | {"if": condition}]}]}}))

    says("Bash(git*)")
    first = json.loads(nexus("trust", "--json").stdout)["items"]
    hook = ".claude/settings.json: PreToolUse sh guard.sh if Bash"
    assert {(one["kind"], one["name"], one["what"], one["state"], one["diff"]) for one in first} == {
        ("settings", "", "", "new", ""),
        ("recipe", "careful", "", "new", ""),
        ("hook", f"{hook}(git*)", "", "new", ""),
    }
    says("Bash(g?t)")
    own = project / ".nexus"
    (own / "config.toml").write_text('model = "openai/x"\nallow = "all"\n[limits]\nmax_steps = 9\n')
    (own / "mcp.json").write_text('{"mcpServers": {"files": {"command": "serve\\u001b[31m"}}}')
    (own / "recipes" / "careful.toml").unlink()
    text = nexus("trust").stdout.decode()
    words = " ".join(text.split())
    for line in (
        "  Changed since it was trusted: settings",
        "  -limits.max_steps = 7",
        "  +limits.max_steps = 9",
        "  New since it was trusted: server files",
        '  +  "command": "serve',
        "  Removed since it was trusted: recipe careful",
        "  -max_steps = 3",
        "    PreToolUse sh guard.sh if Bash(g?t): does not run here",
    ):
        assert line in text, text
    assert f"New since it was trusted: hook {hook}(g?t)" in words
    assert f"Removed since it was trusted: hook {hook}(git*)" in words and words.count("if Bash(git*)") == 1, text
    assert 'its `if` "Bash(g?t)" is not supported: `bash(g?t)` is not a single command without' in words
    assert "\x1b" not in text and "echo careful" not in text, "the script has not changed"
    again = json.loads(nexus("trust", "--json").stdout)["items"]
    assert {one["state"] for one in again} == {"trusted"} and not any(one["diff"] for one in again)


def test_a_project_that_can_never_take_effect_is_not_trusted(nexus: Run, project: Path) -> None:
    (project / ".nexus" / "skills").symlink_to("/etc")
    done = nexus("trust")
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1
    assert b"skills links to a place outside the project" in done.stderr
    assert b"instead of 200" not in nexus("config", "show").stdout


def test_what_is_wrong_in_a_file_is_told_before_it_is_trusted(nexus: Run, project: Path) -> None:
    (project / ".nexus" / "config.toml").write_text("[limits]\nmax_step = 7\n")
    (project / ".nexus" / "recipes" / "careful.toml").write_text("overrides = 3\n")
    text = " ".join(nexus("trust").stdout.decode().split())
    assert "unknown setting limits.max_step" in text and "cannot set overrides" in text
    assert text.endswith("Active: settings, recipes, except for the files listed above.")
    done = nexus("config", "get", "limits.max_steps")
    assert done.stdout == b"200\n" and b"nothing in this file is in effect" in done.stderr


def test_a_rule_that_a_project_cannot_have_is_told_before_it_is_trusted(nexus: Run, project: Path) -> None:
    rules = '[rules]\nallow = ["bash(make *)"]\ndeny = ["bash(git push", "bash(rm *)"]\n'
    (project / ".nexus" / "config.toml").write_text(rules)
    text = " ".join(nexus("trust").stdout.decode().split())
    assert "Not in effect: .nexus/config.toml: deny `bash(git push` is not a rule; expected TOOL" in text
    assert "rule deny bash(rm *)" in text and "rule allow" not in text and "rules.deny =" not in text


def test_a_recipe_whose_name_is_taken_is_told_to_have_no_effect(nexus: Run, project: Path) -> None:
    for name in ("ask", "ours"):
        (project / ".nexus" / "recipes" / f"{name}.toml").write_text("[limits]\nmax_steps = 4\n")
    text = " ".join(nexus("trust").stdout.decode().split())
    assert "recipes/ask.toml: another recipe with this name is used instead" in text and "ours.toml: a" not in text
    assert text.endswith("Active: settings, recipes, except for the files listed above.")
    (project / ".nexus" / "recipes" / "Bad Name.toml").write_text("[limits]\nmax_steps = 4\n")
    assert "Bad Name.toml: not a valid recipe name" in " ".join(nexus("trust").stdout.decode().split())


@pytest.mark.matrix
def test_what_is_shown_is_what_is_in_effect(nexus: Run, project: Path) -> None:
    (project / ".nexus" / "config.toml").write_text(
        "[compact]\nat = 0.3\nprune = false\n[limits]\nmax_steps = 7\nmax_stepz = 8\n"
    )
    text = " ".join(nexus("trust").stdout.decode().split())
    assert "compact.prune = false: instead of true" in text and "limits.max_steps = 7: instead of 200" in text
    assert "Not in effect: compact.at cannot be set: compact.at (0.3) must be above" in text
    assert "unknown setting limits.max_stepz" in text and "compact.at = 0.3" not in text
    shown = {key: nexus("config", "get", key).stdout for key in ("compact.prune", "limits.max_steps", "compact.at")}
    assert shown == {"compact.prune": b"false\n", "limits.max_steps": b"7\n", "compact.at": b"0.85\n"}


def test_what_a_project_adds_to_lists_is_not_told_to_replace_them(nexus: Run, project: Path) -> None:
    nexus("config", "set", "rules.deny", '["bash(npm install *)"]')
    config = project / ".nexus" / "config.toml"
    config.write_text('[rules]\ndeny = ["bash(git push *)"]\n[[check]]\nglob = "*.py"\ncommand = "lint {files}"\n')
    effects = {row["key"]: row["effect"] for row in json.loads(nexus("trust", "--json").stdout)["settings"]}
    assert effects == {"rules.deny": "in addition to yours", "check": "added"}
    assert "  check `lint {files}` (*.py): added\n" in nexus("trust").stdout.decode()


def test_without_configuration_there_is_nothing_to_trust(nexus: Run, tmp_path: Path) -> None:
    done = nexus("trust")
    assert done.returncode == 0 and b"no configuration to trust" in done.stdout
    assert nexus("trust", "nowhere").returncode == 2


def test_a_server_of_an_untrusted_project_is_told_to_wait_in_whichever_file_it_is(nexus: Run, project: Path) -> None:
    (project / ".nexus" / "mcp.json").write_text('{"mcpServers": {"one": {"command": "serve"}}}')
    told = nexus("mcp", "test", "one").stderr.decode()
    why = "there is no such server. Not active in this project: 1 MCP server (see `nexus trust`)."
    assert told == f"nexus: server one: {why}\n"


def test_memory_cannot_be_put_in_order_without_a_model(nexus: Run, tmp_path: Path) -> None:
    done = nexus("memory", "consolidate")
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)


@pytest.mark.matrix
def test_all_that_trust_puts_into_effect_is_named(nexus: Run, project: Path) -> None:
    (project / ".nexus" / "commands").mkdir()
    (project / ".nexus" / "commands" / "fix.md").write_text("Fix it")
    (project / ".mcp.json").write_text('{"mcpServers": {"new": {"command": "serve"}}}')
    (project / ".claude" / "output-styles").mkdir(parents=True)
    text = " ".join(nexus("trust").stdout.decode().split())
    assert "server .mcp.json: new" in text and ".mcp.json, 45 bytes" in text
    assert text.endswith("Trusted. Active: MCP servers, commands, settings, recipes.")
    assert "Unsupported here: .claude/output-styles: output styles are not supported" in text
    for words, said in (
        ("status", "Found .claude/output-styles (output styles): not supported"),
        ("doctor", ".claude/output-styles: output styles are not"),
    ):
        assert said in " ".join(nexus(words).stdout.decode().split())


def test_a_configuration_that_cannot_be_trusted_is_an_object_too(nexus: Run, project: Path) -> None:
    (project / ".nexus" / "config.toml").unlink()
    (project / ".nexus" / "config.toml").symlink_to("/dev/zero")
    done = nexus("trust", "--json")
    value = json.loads(done.stdout)
    assert done.returncode == 2 and value["state"] == "untrusted" and "outside the project" in value["problems"][0]
    assert done.stderr.count(b"Fix or remove the file") == 1
