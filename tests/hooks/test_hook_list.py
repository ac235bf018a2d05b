"""The hooks of a folder: each broken one is named, none stops the others, and none is made of another's bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nexus_cli.config.hook_tables import HookTable
from nexus_cli.config.trust import trust
from nexus_cli.hooks.hook_list import ACTIVE, UNSUPPORTED, UNTRUSTED, list_hooks


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for inner in (".git", ".nexus", ".codex", ".claude"):
        (folder / inner).mkdir(parents=True)
    return folder


def write_claude(project: Path, *hooks: dict[str, object], matcher: str = "") -> None:
    text = json.dumps({"hooks": {"PreToolUse": [{"matcher": matcher, "hooks": list(hooks)}]}})
    (project / ".claude" / "settings.json").write_text(text)


@pytest.mark.parametrize("timeout", [10**400, 1e300, -1, "soon", True])
def test_a_hook_with_an_impossible_time_limit_is_named_and_the_next_one_counts(project: Path, timeout: object) -> None:
    write_claude(project, {"type": "command", "command": "a", "timeout": timeout}, {"type": "command", "command": "b"})
    assert [hook.state for hook in list_hooks(project, ())] == [UNSUPPORTED, UNTRUSTED]


@pytest.mark.parametrize("text", ["{", "[1]", '{"event": "PreToolUse", "command": "echo FORGED"}'])
def test_a_file_that_a_hook_names_makes_no_hook_of_its_own(project: Path, text: str) -> None:
    (project / ".nexus" / "config.toml").write_text('[[hook]]\nevent = "Stop"\ncommand = "cat .codex/hooks.json"\n')
    (project / ".codex" / "hooks.json").write_text(text)
    trust(project)
    (hook,) = list_hooks(project, ())
    assert (hook.state, hook.table.event, set(hook.scripts)) == (ACTIVE, "Stop", {".codex/hooks.json"})


@pytest.mark.parametrize("matcher", [r"(\w+\w*)+!", "a*b*c*d*e", "x" * 500, "["])
def test_a_matcher_that_could_take_for_ever_is_not_supported(project: Path, matcher: str) -> None:
    write_claude(project, {"type": "command", "command": "a"}, matcher=matcher)
    own = HookTable("PreToolUse", "true", matcher)
    assert [hook.state for hook in list_hooks(project, (own,))] == [UNSUPPORTED, UNSUPPORTED]
    write_claude(project, {"type": "command", "command": "a"}, matcher="mcp__.*|Edit")
    assert list_hooks(project, ())[0].matches(["mcp__git__log"])
