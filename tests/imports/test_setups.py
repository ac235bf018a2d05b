"""The setups of other programs, real-looking and broken ones."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from search import sample

from nexus_cli.config.load_settings import read_values
from nexus_cli.config.paths import places
from nexus_cli.core.errors import NexusError
from nexus_cli.imports.other_setups import SETUPS, program_folder
from nexus_cli.imports.personal_changes import BOTH, MINE, THEIRS, plan_import
from nexus_cli.imports.waiting_setups import find_waiting

KEY = "sk-" + "proj1234" * 5
CODEX = f"""
model = "gpt-5-codex"
model_reasoning_effort = "high"
approval_policy = "on-request"
sandbox_mode = "workspace-write"
[mcp_servers.docs]
command = "npx"
args = ["-y", "docs-server"]
env = {{ DOCS_API_KEY = "{KEY}", MODE = "ro" }}
startup_timeout_sec = 20
disabled_tools = ["delete"]
enabled_tools = ["search"]
[mcp_servers.web]
url = "https://api.example.com/mcp"
bearer_token_env_var = "WEB_TOKEN"
[projects."/srv/a"]
trust_level = "trusted"
"""
UNREADABLE = """prefix_rule(pattern=[x for x in y], decision="forbidden")
__import__("os").system("touch /tmp/ran")
"""
RULES = """
prefix_rule(pattern=["git", ["push", "fetch"]], decision="prompt")
prefix_rule(pattern=["rm", "-rf"], decision="forbidden", justification="no")
prefix_rule(pattern=["ls"])
"""
OPENCODE = """\ufeff{
  // comments and trailing commas
  "model": "anthropic/claude-sonnet-4-5", /* here too */
  "permission": {"edit": "ask", "bash": {"*": "ask", "git *": "allow", "rm -rf *": "deny", "a*b": "deny"},
                 "webfetch": "deny"},
  "mcp": {"local": {"type": "local", "command": ["bun", "x", "s"], "environment": {"A": "{env:HOME_A}"},
                    "enabled": false},
          "away": {"type": "remote", "url": "https://api.example.com/m", "headers": {"X-Key": "{env:K_TOKEN}"}}},
  "tools": {"write": false, "webfetch": false},
  "provider": {"openai": {"options": {"apiKey": "KEY"}}, "mine": {"options": {"baseURL": "http://10.0.0.7:8000/v1"}},
               "moon": {}, "github-copilot": {}},
}""".replace("KEY", KEY, 1)
GEMINI = {
    "model": {"name": "gemini-2.5-pro"},
    "tools": {
        "allowed": ["run_shell_command(git status)", "write_file"],
        "exclude": ["run_shell_command(rm)", "save_memory"],
    },
    "mcpServers": {
        "sse": {"url": "https://api.example.com/sse"},
        "http": {
            "httpUrl": "https://api.example.com/m",
            "trust": True,
            "excludeTools": ["wipe"],
            "headers": {"X-Team": "$TEAM", "Authorization": "Bearer ${TOK}"},
        },
    },
}
AIDER = f"model: sonnet\nopenai-api-key: {KEY}\napi-key:\n  - gemini={KEY}\nread: [CONVENTIONS.md]\ndark-mode: true\n"
AIDER += "lint-cmd:\n  - 'python: ruff check'\ntest-cmd: pytest -q\n"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def apply(setup: object, answer: str = MINE) -> str:
    plan = plan_import(setup, places(), lambda what, answers: answer)  # type: ignore[arg-type]
    for change in plan.changes:
        change.write()
    assert not plan_import(setup, places(), lambda what, answers: MINE).changes  # type: ignore[arg-type]
    read_values(places().settings)
    return places().settings.read_text() if places().settings.exists() else ""


def test_codex(tmp_path: Path) -> None:
    write(tmp_path / "config.toml", CODEX)
    write(tmp_path / "rules/default.rules", RULES)
    assert ("allow", "bash(ls *)") in SETUPS["codex"](tmp_path).rules
    write(tmp_path / "rules/more.rules", UNREADABLE)
    write(tmp_path / "AGENTS.md", f"Be brief. The key is {KEY}\n")
    write(tmp_path / "AGENTS.override.md", " \n")
    write(tmp_path / "prompts/review.md", "Review $1.\n")
    setup = SETUPS["codex"](tmp_path)
    assert setup.settings == {"model": "openai/gpt-5-codex", "effort": "high", "allow": "auto"}
    assert set(setup.rules) == {
        ("ask", "bash(git push *)"),
        ("ask", "bash(git fetch *)"),
        ("deny", "bash(rm -rf *)"),
        ("deny", "mcp__docs__delete"),
    }
    assert setup.lost[0].startswith("deny all tools of server docs except ") and len(setup.lost) == 3
    assert any("allow bash(ls *): would allow" in line for line in setup.notes), "what denies there is not known"
    made = apply(setup)
    assert KEY not in made and "DOCS_API_KEY" in made and "MODE=ro" in made and "Bearer ${WEB_TOKEN}" in made
    assert (places().config / "NEXUS.md").read_text() == "Be brief. The key is [redacted]\n"
    assert (places().config / "commands/review.md").read_text() == "Review $1.\n"
    assert any("DOCS_API_KEY" in line and "nexus login DOCS_API_KEY" in line for line in setup.notes)
    write(tmp_path / "AGENTS.override.md", "Be long.\n")
    write(tmp_path / "hooks.json", json.dumps({"hooks": {"Stop": []}}))
    write(tmp_path / "agents/a.toml", "")
    setup = SETUPS["codex"](tmp_path)
    assert setup.instructions == "Be long.", "as codex reads them"
    assert any(line.startswith("hooks (Stop)") for line in setup.notes) and f"agents in {tmp_path}" in str(setup.notes)


def test_opencode(tmp_path: Path) -> None:
    write(tmp_path / "opencode.json", OPENCODE)
    write(tmp_path / "command/fix.md", "Fix $1.\n")
    setup = SETUPS["opencode"](tmp_path)
    assert setup.settings == {"model": "anthropic/claude-sonnet-4-5"} and not setup.rules
    assert [line.split()[0] for line in setup.lost] == ["permission", "tools"], "what denied there is not translated"
    made = apply(setup)
    assert KEY not in made and "${HOME_A}" in made and "enabled = false" in made and "X-Key: ${K_TOKEN}" in made
    openai, mine, moon, copilot = (line for line in setup.notes if line.startswith("provider "))
    assert "nexus login openai" in openai and "nexus login github-copilot" in copilot, setup.notes
    assert moon.endswith("export the key in your shell"), "nexus login stores none of an unknown provider"
    assert "mine" in mine and "http://10.0.0.7:8000/v1" in mine and "OPENAI_API_BASE" in mine, setup.notes
    assert KEY not in str(setup.notes) and setup.commands == {"fix": "Fix $1.\n"}


@pytest.mark.parametrize(
    ("program", "file", "text"),
    [
        ("codex", "config.toml", "model ="),
        ("gemini", "settings.json", "{"),
        ("opencode", "opencode.json", "{"),
        ("aider", ".aider.conf.yml", "a: ["),
    ],
)
def test_a_file_that_cannot_be_parsed_is_named_once_with_its_kind(
    tmp_path: Path, program: str, file: str, text: str
) -> None:
    write(tmp_path / file, text)
    setup = SETUPS[program](tmp_path)
    (line,) = [line for line in [*setup.lost, *setup.notes] if Path(file).name in line]
    assert f"not a valid {Path(file).suffix} file" in line


def test_gemini_and_aider(tmp_path: Path) -> None:
    write(tmp_path / "settings.json", json.dumps(GEMINI))
    setup = SETUPS["gemini"](tmp_path)
    assert setup.settings == {"model": "gemini/gemini-2.5-pro"}
    assert set(setup.rules) == {("deny", "mcp__http__wipe")}
    assert setup.lost[0].startswith("tools in ") and {name: one["url"][-1] for name, one in setup.servers.items()} == {
        "http": "m"
    }
    assert any("server http" in line and "trust" in line for line in setup.notes)
    made = apply(setup)
    assert "X-Team: ${TEAM}" in made and "Authorization: Bearer ${TOK}" in made, "nexus fills in no $NAME"

    write(tmp_path / ".aider.conf.yml", AIDER)
    setup = SETUPS["aider"](tmp_path)
    assert not setup.settings and KEY not in str(setup)
    assert all(word in str(setup.notes) for word in ("sonnet", "dark-mode", "read", "openai-api-key"))
    lint, test = (line for line in sorted(setup.notes) if "-cmd" in line)
    assert lint.startswith("lint-cmd: write it as a [[check]]") and "--until" in test


def test_what_nexus_has_in_another_form_is_named_with_its_form(tmp_path: Path) -> None:
    claude = {"outputStyle": "terse", "permissions": {"additionalDirectories": ["~/other"]}}
    write(tmp_path / "claude/settings.json", json.dumps(claude))
    write(tmp_path / "codex/config.toml", 'project_doc_fallback_filenames = ["GUIDE.md"]\n')
    folders, style = sorted(SETUPS["claude"](tmp_path / "claude").notes)
    assert folders == "additionalDirectories ~/other: use `--add-dir FOLDER`" and "`ui.style`" in style
    (names,) = SETUPS["codex"](tmp_path / "codex").notes
    assert names == "project_doc_fallback_filenames: nexus reads these files if AGENTS.md contains @GUIDE.md"


def test_settings_that_nexus_has_under_another_name_are_not_called_missing(tmp_path: Path) -> None:
    claude = {"theme": "dark", "editorMode": "vim", "statusLine": {}, "cleanupPeriodDays": 30}
    write(tmp_path / "claude/settings.json", json.dumps(claude))
    codex = 'notify = ["notify-send"]\nhide_agent_reasoning = true\n[tui]\n[sandbox_workspace_write]\n'
    write(tmp_path / "codex/config.toml", codex + '[shell_environment_policy]\ninherit = "core"\n')
    for program, ways, missing in (
        ("claude", ("ui.theme", "ui.keys vi", "ui.status_command"), "cleanupPeriodDays"),
        ("codex", ("ui.notify_command", "ui", "sandbox.write", "sandbox.env_pass"), "hide_agent_reasoning"),
    ):
        notes = SETUPS[program](tmp_path / program).notes
        assert notes[-1].endswith(f"nexus has no equivalent of {missing}")
        assert all(any(way in note for note in notes[:-1]) for way in ways), notes


def test_what_differs_is_asked_about_and_both_may_stay(tmp_path: Path) -> None:
    write(places().settings, '# mine\nmodel = "openai/a"\n\n[rules]\nallow = ["bash(rm *)"]  # sic\n')
    write(places().config / "NEXUS.md", "Mine.\n")
    write(tmp_path / "config.toml", 'model = "b"\n')
    write(tmp_path / "rules/default.rules", 'prefix_rule(pattern=["rm"], decision="forbidden")\n')
    write(tmp_path / "AGENTS.md", "Theirs.\n")
    setup = SETUPS["codex"](tmp_path)
    asked: list[str] = []

    def mine(what: str, answers: object) -> str:
        asked.append(what)
        return MINE

    plan = plan_import(setup, places(), mine)
    assert (
        not plan.changes and len(plan.kept) == 3 and [one.split()[0] for one in asked] == ["model", "rule", "NEXUS.md"]
    )
    plan = plan_import(setup, places(), lambda what, answers: BOTH if BOTH in answers else THEIRS)
    settings, texts = (one.after for one in plan.changes)
    assert "# mine" in settings and '"openai/b"' in settings and settings.count("bash(rm *)") == 2
    assert texts == "Mine.\n\nTheirs.\n"
    settings = plan_import(setup, places(), lambda what, answers: THEIRS).changes[0].after
    assert settings.count("bash(rm *)") == 1 and 'deny = ["bash(rm *)"]' in settings
    stale = plan.changes[0]
    write(places().settings, "# changed meanwhile\n")
    with pytest.raises(NexusError, match="the file has changed"):
        stale.write()


BROKEN = (
    "",
    "{",
    "[]",
    "null",
    "\0",
    "\ufeff{}",
    "{" * 5000,
    '{"permissions": 3, "mcpServers": [1], "env": "x", "model": {}}',
    "= [[[",
    "- - :\n\t",
)


@pytest.mark.parametrize("program", sample(SETUPS, 4))
@pytest.mark.parametrize("text", sample(BROKEN, 4, 3))
def test_a_broken_file_is_a_line_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, text: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (
        "settings.json",
        "config.toml",
        "opencode.json",
        ".aider.conf.yml",
        "rules/a.rules",
        "commands/a.toml",
        ".claude.json",
    ):
        write(tmp_path / name, text)
    setup = SETUPS[program](tmp_path)
    assert not setup.rules and not setup.servers and not setup.settings
    apply(setup)


@pytest.mark.parametrize("program", SETUPS)
def test_odd_files_are_named_and_do_not_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert not SETUPS[program](tmp_path / "none").files
    for name in ("settings.json", "config.toml", "opencode.json", ".aider.conf.yml"):
        os.mkfifo(tmp_path / name)
    setup = SETUPS[program](tmp_path)
    assert any("is not a regular file" in line for line in [*setup.lost, *setup.notes]) and not setup.files


def test_a_program_waits_until_its_setup_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    assert "codex" not in dict(find_waiting(places()))
    write(tmp_path / "config.toml", CODEX)
    write(tmp_path / "AGENTS.md", "Be brief.\n")
    assert "config.toml" in dict(find_waiting(places()))["codex"]
    apply(SETUPS["codex"](tmp_path))
    assert "codex" not in dict(find_waiting(places()))
    places().settings.write_text("[")
    assert not dict(find_waiting(places())), "another check says that the settings are broken"
    monkeypatch.setenv("CODEX_HOME", f"{tmp_path}/{'x' * 300}")  # root can read any folder, but not this one
    assert not dict(find_waiting(places()))
    with pytest.raises(NexusError, match="File name too long"):
        program_folder("codex")
