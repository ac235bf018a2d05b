"""The hooks of a folder: each broken one is named, none stops the others, and none is made of another's bytes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from nexus_cli.commands.forms import find_form
from nexus_cli.config.foreign_items import KINDS
from nexus_cli.config.hook_tables import HookTable
from nexus_cli.config.trust import read_configuration, trust
from nexus_cli.config.worktree_record import WorktreeRecord, worktrees_of
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import to_json_value
from nexus_cli.hooks.hook_list import ACTIVE, CHANGED, UNSUPPORTED, UNTRUSTED, list_hooks


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
    lines = find_form("hooks")({"hooks": to_json_value(list_hooks(project, ()))}, 200).splitlines()
    starts = [" ".join(line.split()[:2]) for line in lines if line.startswith("  ")]
    assert len(lines) == 4 and starts == ["not supported:", "not trusted:"] and lines[2].startswith("PreToolUse: b ")


@pytest.mark.parametrize("text", ["{", "[1]", '{"event": "PreToolUse", "command": "echo FORGED"}'])
def test_a_file_that_a_hook_names_makes_no_hook_of_its_own(project: Path, text: str) -> None:
    (project / ".nexus" / "config.toml").write_text('[[hook]]\nevent = "Stop"\ncommand = "cat .codex/hooks.json"\n')
    (project / ".codex" / "hooks.json").write_text(text)
    trust(project)
    hook = list_hooks(project, ())[0]
    assert (hook.state, hook.table.event, set(hook.scripts)) == (ACTIVE, "Stop", {".codex/hooks.json"})


@pytest.mark.parametrize("matcher", [r"(\w+\w*)+!", "a*b*c*d*e", "x" * 500, "["])
def test_a_matcher_that_could_take_for_ever_is_not_supported(project: Path, matcher: str) -> None:
    write_claude(project, {"type": "command", "command": "a"}, matcher=matcher)
    own = HookTable("PreToolUse", "true", matcher)
    assert [hook.state for hook in list_hooks(project, (own,))] == [UNSUPPORTED, UNSUPPORTED]
    write_claude(project, {"type": "command", "command": "a"}, matcher="mcp__.*|Edit")
    assert list_hooks(project, ())[0].matches(["mcp__git__log"])


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        (["Edit"], "hooks.PreToolUse[0]"),
        ([{"matcher": ["Edit"], "hooks": []}], "hooks.PreToolUse[0]"),
        ([{"hooks": {"type": "command"}}], "hooks.PreToolUse[0]"),
        ([{"hooks": ["./check.sh"]}], "hooks.PreToolUse[0].hooks[0]"),
        ({"matcher": ""}, "hooks.PreToolUse,"),
    ],
)
def test_an_invalid_group_is_named_and_the_others_count(project: Path, groups: object, why: str) -> None:
    stop = [{"hooks": [{"type": "command", "command": "true"}]}]
    (project / ".claude" / "settings.json").write_text(json.dumps({"hooks": {"PreToolUse": groups, "Stop": stop}}))
    hook, left_out = list_hooks(project, ())
    assert (hook.table.command, hook.state, left_out.state) == ("true", UNTRUSTED, UNTRUSTED)
    assert why in left_out.why and left_out.source == ".claude/settings.json"
    found = read_configuration(project, KINDS)
    assert [f".claude/settings.json has {why}" in str(one) for one in found.left_out] == [True]
    trust(project)
    assert [(one.state, one.is_broken) for one in list_hooks(project, ())] == [(ACTIVE, False), (UNSUPPORTED, True)]


@pytest.mark.parametrize("text", ["", "{", '{"hooks": []}', "[1]", '{"hooks": ' + "[" * 100_000, "link", "pipe"])
def test_a_trusted_file_that_cannot_be_read_any_more_is_told_by_hook(project: Path, tmp_path: Path, text: str) -> None:
    write_claude(project, {"type": "command", "command": "a"}, {"type": "command", "command": "b"})
    trust(project)
    path = project / ".claude" / "settings.json"
    path.unlink()
    if text == "link":
        (tmp_path / "elsewhere.json").write_text("{}")
        path.symlink_to(tmp_path / "elsewhere.json")
    elif text == "pipe":
        os.mkfifo(path)
    else:
        path.write_text(text)
    hooks = list_hooks(project, ())
    assert [(hook.table.command, hook.state) for hook in hooks] == [("a", CHANGED), ("b", CHANGED)]
    assert all(hook.describe_broken().startswith("hook a (.claude/settings.json) is off: ") for hook in hooks[:1])


@pytest.mark.parametrize("text", ['[[hook]]\nevent = "Stop', "hook = [5]\n", "hook = 5\n"])
def test_settings_of_a_project_that_hold_an_invalid_hook_are_named(project: Path, text: str) -> None:
    (project / ".nexus" / "config.toml").write_text(text)
    (left_out,) = list_hooks(project, ())
    assert (left_out.source, left_out.state) == (".nexus/config.toml", UNTRUSTED)


def test_settings_of_claude_without_hooks_are_no_hooks(project: Path) -> None:
    (project / ".claude" / "settings.json").write_text('{"permissions": {}}')
    assert list_hooks(project, ()) == [] and not read_configuration(project, KINDS).left_out


def test_the_shell_of_a_hook_is_bash(project: Path) -> None:
    write_claude(
        project,
        {"type": "command", "command": "a", "shell": "bash"},
        {"type": "command", "command": "b", "shell": "powershell"},
    )
    found = list_hooks(project, ())
    assert [hook.state for hook in found] == [UNTRUSTED, UNSUPPORTED] and "only bash is supported" in found[1].why


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("jq . >> log.txt 2>err.txt; echo no >&2", set()),
        ("tee -a 'log.txt' err.txt | sh run.sh", {"run.sh"}),
        ("cat > run.sh; sh run.sh", {"run.sh"}),
        ("tee >(sh run.sh) < log.txt", {"run.sh", "log.txt"}),
        ("sh <> log.txt", {"log.txt"}),
    ],
)
def test_what_a_hook_only_writes_is_no_part_of_its_trust(project: Path, command: str, names: set[str]) -> None:
    for name in ("log.txt", "err.txt", "run.sh"):
        (project / name).touch()
    write_claude(project, {"type": "command", "command": command})
    trust(project)
    assert set(list_hooks(project, ())[0].scripts) == names


@pytest.mark.parametrize(
    ("event", "condition", "why"),
    [
        ("PreToolUse", "Bash(git *", "expected TOOL or TOOL(PATTERN)"),
        ("PreToolUse", "NotebookEdit(a)", "nexus has no such tool"),
        ("PreToolUse", ["Bash"], "`if` must be a string"),
        ("SessionStart", "Bash(git *)", "SessionStart is not a tool call event"),
        ("PreToolUse", "Bash(git ?ain)", "`bash(git ?ain)` contains `?ain`: use `*` to match any text"),
        ("PreToolUse", "Bash(* --force)", ""),
        ("PreToolUse", "Bash(git *)", ""),
        ("PreToolUse", "Bash(git commit*)", ""),
        ("PermissionRequest", "Edit(src/**)", ""),
    ],
)
def test_a_condition_that_cannot_hold_here_is_named(project: Path, event: str, condition: object, why: str) -> None:
    entry = {"type": "command", "command": "true", "if": condition}
    (project / ".claude" / "settings.json").write_text(json.dumps({"hooks": {event: [{"hooks": [entry]}]}}))
    (hook,) = list_hooks(project, ())
    assert hook.state == (UNSUPPORTED if why else UNTRUSTED) and why in hook.why, hook.why


@pytest.mark.parametrize("kind", ["prompt", "agent", "http", "mcp_tool"])
def test_a_hook_of_another_type_is_named(project: Path, kind: str) -> None:
    write_claude(project, {"type": kind, "prompt": "Is it fine? $ARGUMENTS"})
    (hook,) = list_hooks(project, ())
    assert hook.state == UNSUPPORTED and f"its `type` is {kind}" in hook.why


@pytest.mark.parametrize("keys", [{"async": True}, {"on_timeout": "deny"}])
def test_a_hook_that_cannot_refuse_does_not_stand_for_one_with_the_same_command_that_can(
    project: Path, keys: dict[str, object]
) -> None:
    entry: dict[str, object] = {"type": "command", "command": "guard"}
    write_claude(project, entry)
    (first,) = list_hooks(project, ())
    write_claude(project, entry | keys)
    (second,) = list_hooks(project, ())
    assert first.key != second.key


def test_a_command_with_two_conditions_is_two_hooks(project: Path) -> None:
    entry: dict[str, object] = {"type": "command", "command": "guard"}
    write_claude(project, *(entry | {"if": f"Bash({word} *)"} for word in ("git", "rm")))
    trust(project)
    assert [hook.condition for hook in list_hooks(project, ())] == ["Bash(git *)", "Bash(rm *)"]


@pytest.mark.parametrize(("on_timeout", "state"), [("deny", CHANGED), ("allow", UNSUPPORTED)])
def test_a_guard_that_must_answer_refuses_while_a_file_switches_it_off(
    project: Path, on_timeout: str, state: str
) -> None:
    write_claude(project, {"type": "command", "command": "guard", "on_timeout": on_timeout})
    trust(project)
    (project / ".claude" / "settings.local.json").write_text('{"disableAllHooks": true}')
    (hook,) = list_hooks(project, ())
    assert (hook.state, hook.why) == (state, ".claude/settings.local.json sets disableAllHooks")


def test_in_a_worktree_the_trusted_hooks_of_its_source_run_whatever_its_files_say(project: Path) -> None:
    guard: dict[str, object] = {"type": "command", "command": "sh .claude/guard.sh"}
    folder = Path(os.path.realpath(worktrees_of(project))) / "fix"
    for place in (project, project / "sub"):
        (place / ".claude").mkdir(parents=True, exist_ok=True)
        write_claude(place, guard)
        (place / ".claude/guard.sh").write_text("exit 2\n")
        trust(place)
    WorktreeRecord("fix", folder, project, project / ".git", "b", "c", "d", "d").save()
    (folder / ".git").mkdir(parents=True)
    (folder / "sub/.claude").mkdir(parents=True)
    (folder / "sub/.claude/guard.sh").write_text("exit 2\n")

    def check(why: str) -> None:
        first, second = list_hooks(folder / "sub", ())
        assert (first.state, first.folder, first.why) == (CHANGED if why else ACTIVE, folder, why)
        assert (second.state, second.folder) == (ACTIVE, folder / "sub")

    gone, source = ".claude/guard.sh does not exist or is not a regular file", f"; copy it from {project}"
    check(gone + source)
    (folder / ".claude").mkdir()
    (folder / ".claude/guard.sh").write_text("exit 0\n")
    check(".claude/guard.sh has changed since you trusted it" + source)
    write_claude(folder, guard | {"timeout": 1})
    check(".claude/guard.sh has changed since you trusted it" + source)
    (folder / ".claude/settings.local.json").write_text('{"disableAllHooks": true}')
    (folder / ".claude/guard.sh").write_text("exit 2\n")
    check("")
    (folder / ".nexus").symlink_to("/")
    check("")
    with pytest.raises(NexusError, match=f"a worktree shares the trust of its project, {project}/sub"):
        trust(folder / "sub")
    write_claude(project, guard | {"timeout": 2})
    (folder / ".nexus").unlink()
    assert list_hooks(folder, ())[0].state == CHANGED, "neither the source nor the worktree has what was trusted"
