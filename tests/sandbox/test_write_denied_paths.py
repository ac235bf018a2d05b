"""What deny rules keep from being written: no program of a command changes it, and nobody else's work there is lost."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from sandbox.scene import ONE_EACH, Ground, Scene, in_user, open_scene
from search import sample

from nexus_cli.rules.denied_files import find_write_denied_paths
from nexus_cli.rules.rule_set import RuleSet, parse_rule
from nexus_cli.sandbox.backend import Backend
from nexus_cli.sandbox.command_guard import CommandGuard, settle_project
from nexus_cli.sandbox.profile import SandboxProfile
from nexus_cli.tools.registry import discover_tools

once_each = pytest.mark.parametrize("ground", sample(ONE_EACH, 2), ids=lambda ground: ground.name, indirect=True)
RULES = ("edit_file(sub/locked/**)", "write_file(later/**)", "edit_file(*.lock)", "edit_file(**/gen_*.py)")
HARM = (
    "python3 -c \"open('sub/locked/a', 'w').write('x')\"; echo x > sub/locked/new; mkdir sub/locked/folder",
    "chmod 777 sub/locked/a; rm -rf sub/locked; mkdir -p sub/locked; echo x > sub/locked/a",
    "mv sub sub2; mkdir -p sub/locked; echo x > sub/locked/a",
    "mv sub out; rm -rf sub out",
    "echo x > one.lock; mkdir -p sub/in; echo x > sub/in/two.LOCK; mv free third.lock",
    "mkdir -p later/deep && echo x > later/deep/file; echo x > sub/gen_b.py",
    "python3 -c \"import os; os.symlink('free', 'four.lock'); os.rename('mine.lock', 'other')\"",
)


def profile_of(scene: Scene, *, mounts: bool) -> SandboxProfile:
    tools = discover_tools()
    rules = RuleSet(tuple(parse_rule("deny", text, tools) for text in RULES))
    kept, patterns = find_write_denied_paths(rules, scene.project)
    return replace(scene.profile(), write_denied_paths=kept, write_denied_patterns=patterns, mounts_write_denied=mounts)


def fill(scene: Scene) -> None:
    for name in ("sub/locked/deep/b", "sub/locked/a", "sub/gen_a.py", "mine.lock", "free"):
        (scene.project / name).parent.mkdir(parents=True, exist_ok=True)
        (scene.project / name).write_text(f"{name}\n")


def kept_files(project: Path) -> dict[str, str]:
    """Return the content of all that the rules name; of a link, its target."""
    found = {}
    for path in project.rglob("*"):
        name = str(path.relative_to(project))
        if name.startswith(("sub/locked", "later")) or name.lower().endswith(".lock") or "gen_" in name:
            found[name] = os.readlink(path) if path.is_symlink() else "" if path.is_dir() else path.read_text()
    return found


@once_each
@pytest.mark.parametrize("words", sample(HARM, 3))
def test_no_program_writes_what_a_deny_rule_names(ground: Ground, words: str) -> None:
    def act() -> tuple[dict[str, str], dict[str, str], bool]:
        with open_scene(ground) as scene:
            fill(scene)
            before = kept_files(scene.project)
            scene.run(f"{words}; echo fine > allowed", profile_of(scene, mounts=ground.backend is Backend.BWRAP))
            return before, kept_files(scene.project), (scene.project / "allowed").exists()

    before, after, went_on = in_user(ground.user, act)
    assert after == before and went_on


@pytest.mark.matrix
@once_each
def test_a_command_that_fails_there_says_which_rule_it_met(ground: Ground) -> None:
    from nexus_cli.sandbox.denial import describe_denial

    def act() -> tuple[str, str]:
        with open_scene(ground) as scene:
            made, error = profile_of(scene, mounts=True), "bash: line 1: {}: Read-only file system"
            named = ("sub/locked/new", "sub/x.lock")
            first, second = (
                describe_denial(made, "make", error.format(scene.project / one), ground.backend) for one in named
            )
            return first, second

    first, second = in_user(ground.user, act)
    assert "deny edit_file(sub/locked/**) makes" in first and "sub/locked/new" in first
    assert "deny edit_file(*.lock) makes" in second and "sub/x.lock" in second


def test_what_the_person_changes_there_meanwhile_stays_where_a_mount_holds_it(tmp_path: Path) -> None:
    with open_scene(ONE_EACH[0]) as scene:
        fill(scene)
        guard = CommandGuard(profile_of(scene, mounts=True))
        draft = scene.project / "sub/draft"
        draft.write_text("saved by an editor\n")
        draft.rename(scene.project / "sub/locked/a")
        (scene.project / "sub/locked/mine").write_text("new\n")
        assert guard.end() == []
        assert (scene.project / "sub/locked/a").read_text() == "saved by an editor\n"
        assert (scene.project / "sub/locked/mine").exists()


def test_what_is_put_back_names_the_rule_that_keeps_it() -> None:
    with open_scene(ONE_EACH[0]) as scene:
        fill(scene)
        guard = CommandGuard(profile_of(scene, mounts=False))
        for name in ("sub/locked/a", "new.lock", "AGENTS.md"):
            (scene.project / name).write_text("x\n")
        assert sorted(guard.end()) == [
            "AGENTS.md: removed",
            "new.lock: removed (deny edit_file(*.lock))",
            "sub/locked/a: restored (deny edit_file(sub/locked/**))",
        ]


def test_what_the_person_makes_there_after_nexus_was_killed_stays() -> None:
    with open_scene(ONE_EACH[0]) as scene:
        fill(scene)
        guard = CommandGuard(profile_of(scene, mounts=False))
        os.close(guard._record)  # as the end of the process does
        (scene.project / "later").mkdir()
        (scene.project / "later/work").write_text("a week of it\n")
        (scene.project / "new.lock").write_text("x\n")
        (scene.project / "sub/locked/a").write_text("mine\n")
        (scene.project / "AGENTS.md").write_text("evil\n")
        told = settle_project(scene.project, scene.own)
        assert any("AGENTS.md: removed" in line for line in told) and not (scene.project / "AGENTS.md").exists()
        assert (scene.project / "later/work").exists() and (scene.project / "new.lock").exists()
        assert (scene.project / "sub/locked/a").read_text() == "mine\n"
