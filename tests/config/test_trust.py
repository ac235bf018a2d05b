"""Trust in a project: given to what was there, gone when it changed; hostile files never take effect."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from pathlib import Path

import pytest
from project_files import write_files
from search import sample

from nexus_cli.config import trust_beside
from nexus_cli.config.foreign_items import KINDS
from nexus_cli.config.paths import places
from nexus_cli.config.project_items import describe_waiting, project_folders, trusted_folders
from nexus_cli.config.trust import (
    read_configuration,
    revoke_trust,
    trust,
    trust_state,
    trusted_configuration,
    trusted_items,
    trusted_texts,
)
from nexus_cli.config.trust_files import MAX_BYTES, MAX_FILES
from nexus_cli.core.errors import NexusError


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".nexus" / "recipes").mkdir(parents=True)
    (folder / ".nexus" / "config.toml").write_text('allow = "read"\n')
    (folder / ".nexus" / "recipes" / "careful.toml").write_text("[limits]\nmax_steps = 5\n")
    return folder


def test_a_project_without_configuration_has_nothing_to_trust(tmp_path: Path) -> None:
    assert trust_state(tmp_path) == "nothing"
    write_files(tmp_path, {".nexus/cache": "not ours"})
    assert trust_state(tmp_path) == "nothing" and trust_state(tmp_path) != "trusted"
    with pytest.raises(NexusError, match="has no configuration"):
        trust(tmp_path)


def test_trust_is_kept_in_a_private_file_and_can_be_taken_back(project: Path) -> None:
    assert trust_state(project) == "untrusted"
    trust(project)
    assert trust_state(project) == "trusted"
    record = places().data / "trust.json"
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert [path.name for path in record.parent.iterdir() if path.suffix == ".json"] == ["trust.json"]
    assert revoke_trust(project) and not revoke_trust(project)
    assert trust_state(project) == "untrusted"


def test_a_record_that_another_process_keeps_is_a_plain_error(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trust(project)
    monkeypatch.setattr("nexus_cli.config.record_file.WAIT", 0.02)
    with open(places().data / "trust.lock", "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(NexusError, match="locked by another process") as told:
            revoke_trust(project)
    assert "Try again" in told.value.hint
    assert revoke_trust(project)


@pytest.mark.parametrize("name", ["config.toml", "mcp.json", "recipes/more.toml", "commands/a.md", "skills/x/SKILL.md"])
def test_what_is_added_or_changed_after_trusting_makes_it_untrusted(project: Path, name: str) -> None:
    trust(project)
    path = project / ".nexus" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("# other\n")
    assert trust_state(project) == "changed"
    trust(project)
    assert trust_state(project) == "trusted"
    before = trusted_configuration(project).files
    path.unlink()
    assert trust_state(project) == "trusted" and set(trusted_configuration(project).files) == set(before) - {name}


ITEMS: dict[str, tuple[str, str, str]] = {
    "settings": ("config.toml", "max_steps = 5", "max_steps = 6"),
    "rule deny bash(rm *)": ("config.toml", "bash(rm *)", "bash(rm -r *)"),
    "server one": ("mcp.json", "serve-one", "serve-two"),
    "recipe careful": ("recipes/careful.toml", "max_steps = 5", "max_steps = 6"),
    "command fix": ("commands/fix.md", "Fix it", "Break it"),
    "skill deploy": ("skills/deploy/run.sh", "echo ok", "echo no"),
    "identity SOUL.md": ("SOUL.md", "Be kind", "Be rude"),
}
"""An item of each kind with a change of it: key, file, text before and after."""


@pytest.fixture
def full(project: Path) -> Path:
    """A project with two items of most kinds."""
    files = {
        "config.toml": '# ours\n[limits]\nmax_steps = 5\n[rules]\ndeny = ["bash(rm *)", "bash(dd *)"]\n',
        "mcp.json": '{"mcpServers": {"one": {"command": "serve-one"}, "other": {"command": "x"}}}',
        "commands/fix.md": "Fix it",
        "commands/other.md": "Other",
        "recipes/other.toml": "signals = true\n",
        "skills/deploy/SKILL.md": "Deploy.",
        "skills/deploy/run.sh": "echo ok",
        "skills/other/SKILL.md": "Other.",
        "SOUL.md": "Be kind",
        "AGENT.md": "An agent.",
    }
    for name, text in files.items():
        (project / ".nexus" / name).parent.mkdir(parents=True, exist_ok=True)
        (project / ".nexus" / name).write_text(text)
    return project


def pending(project: Path) -> set[str]:
    """Return the keys of the items that are not in effect."""
    found = read_configuration(project)
    return found.items.keys() - trusted_items(project, found).keys()


@pytest.mark.matrix
@pytest.mark.parametrize("key", ITEMS)
def test_a_change_in_one_item_revokes_that_one_and_no_other(full: Path, key: str) -> None:
    trust(full)
    assert pending(full) == set() and set(ITEMS) < set(read_configuration(full).items)
    name, before, after = ITEMS[key]
    path = full / ".nexus" / name
    path.write_text(path.read_text().replace(before, after))
    changed = {key} if not key.startswith("rule") else {"rule deny bash(rm -r *)"}
    assert pending(full) == changed and trust_state(full) == "changed"
    in_force = trusted_configuration(full)
    assert set(in_force.items) == set(read_configuration(full).items) - changed
    assert after not in b"".join(in_force.files.values()).decode().replace("\\", "")
    path.write_text(path.read_text().replace(after, before))
    assert trust_state(full) == "trusted"


def test_form_and_order_of_settings_are_no_change_and_what_they_say_is(full: Path) -> None:
    trust(full)
    path = full / ".nexus" / "config.toml"
    path.write_text('limits = { max_steps = 5 }\nrules.deny = ["bash(dd *)", "bash(rm *)"]  # other words\n')
    (full / ".nexus" / "mcp.json").write_text('{"mcpServers":{"other":{"command":"x"},"one":{"command":"serve-one"}}}')
    assert trust_state(full) == "trusted"
    path.write_text("limits = { max_steps = true }\n")
    assert pending(full) == {"settings"}


def test_an_item_does_not_pass_its_trust_on_to_one_of_another_name(full: Path) -> None:
    trust(full)
    folder = full / ".nexus"
    (folder / "recipes" / "careful.toml").rename(folder / "recipes" / "renamed.toml")
    (folder / "skills" / "deploy" / "run.sh").rename(folder / "skills" / "other" / "run.sh")
    assert pending(full) == {"recipe renamed", "skill deploy", "skill other"}


def test_what_was_trusted_is_kept_as_text_and_goes_with_the_trust(full: Path) -> None:
    (full / ".nexus" / "skills" / "deploy" / "tool.bin").write_bytes(b"\xff\0")
    trust(full)
    texts = trusted_texts(full)
    assert texts["skill deploy"]["skills/deploy/run.sh"] == "echo ok"
    assert texts["skill deploy"]["skills/deploy/tool.bin"] is None
    assert texts["settings"] == {"config.toml": "limits.max_steps = 5\n"}
    kept = list((places().data / "trusted").iterdir())
    assert [stat.S_IMODE(path.stat().st_mode) for path in kept] == [0o600]
    revoke_trust(full)
    assert trusted_texts(full) == {} and not list((places().data / "trusted").iterdir())


@pytest.mark.parametrize("text", ["not = [toml", "[rules]\ndeny = 3\n", "a = " + "[" * 5000 + "]" * 5000, "\xff"])
def test_settings_that_cannot_be_taken_apart_are_one_item(full: Path, text: str) -> None:
    (full / ".nexus" / "config.toml").write_bytes(text.encode("latin-1"))
    trust(full)
    assert [key for key in read_configuration(full).items if key.startswith(("settings", "rule"))] == ["settings"]
    (full / ".nexus" / "config.toml").write_bytes(text.encode("latin-1") + b" ")
    assert pending(full) <= {"settings"}


def test_what_cannot_take_effect_does_not_count(project: Path) -> None:
    trust(project)
    (project / ".nexus" / "notes.md").write_text("hello")
    (project / "NEXUS.md").write_text("hello")
    assert trust_state(project) == "trusted"


def test_trust_holds_for_the_folder_however_it_is_spelt_and_for_no_other(project: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(project)
    trust(tmp_path / "link")
    assert trust_state(project) == "trusted" and trust_state(project / ".." / "project") == "trusted"
    project.rename(tmp_path / "elsewhere")
    assert trust_state(tmp_path / "elsewhere") == "untrusted"


def test_a_record_that_is_no_record_trusts_nothing_and_is_made_anew(project: Path) -> None:
    trust(project)
    record = places().data / "trust.json"
    for broken in ("", "[]", '{"projects": 3}', '{"projects": {"/": 1}}', "\ud800".encode("utf-8", "replace").decode()):
        record.write_text(broken)
        assert trust_state(project) == "untrusted"
    trust(project)
    assert json.loads(record.read_text())["version"] == 2


def test_a_record_with_a_byte_order_mark_or_in_utf_16_is_read(project: Path) -> None:
    trust(project)
    record = places().data / "trust.json"
    text = record.read_text()
    for encoding in ("utf-8-sig", "utf-16"):
        record.write_bytes(text.encode(encoding))
        assert trust_state(project) == "trusted"


def _link_out(project: Path) -> None:
    (project.parent / "outside.toml").write_text('allow = "all"\n')
    (project / ".nexus" / "recipes" / "out.toml").symlink_to(project.parent / "outside.toml")


def _link_folder_out(project: Path) -> None:
    (project / ".nexus" / "skills").symlink_to(project.parent)


def _circle(project: Path) -> None:
    (project / ".nexus" / "skills").symlink_to(project / ".nexus")
    (project / ".nexus" / "again").symlink_to(project / ".nexus")
    (project / ".nexus" / "recipes" / "round").symlink_to(project / ".nexus" / "recipes")


def _broken_link(project: Path) -> None:
    (project / ".nexus" / "mcp.json").symlink_to("nowhere")


def _large(project: Path) -> None:
    (project / ".nexus" / "config.toml").write_bytes(b"#" * (10 * 1024 * 1024))


def _pipe(project: Path) -> None:
    os.mkfifo(project / ".nexus" / "mcp.json")


def _many(project: Path) -> None:
    (project / ".nexus" / "commands").mkdir()
    for number in range(MAX_FILES + 1):
        (project / ".nexus" / "commands" / str(number)).touch()


def _deep(project: Path) -> None:
    (project / ".nexus" / "skills" / "/".join("a" * 40)).mkdir(parents=True)


def _all_of_it(project: Path) -> None:
    (project / ".nexus" / "skills").mkdir()
    for number in range(5):
        (project / ".nexus" / "skills" / str(number)).write_bytes(b"#" * MAX_BYTES)


@pytest.mark.parametrize(
    "spoil", sample([_link_out, _link_folder_out, _circle, _broken_link, _large, _pipe, _many, _deep, _all_of_it], 3, 1)
)
def test_hostile_files_are_named_and_never_take_effect(project: Path, spoil: object) -> None:
    trust(project)
    assert callable(spoil)
    spoil(project)
    found = read_configuration(project)
    assert found.problem.startswith(".nexus") and "\n" not in found.problem
    assert trust_state(project) == "changed"
    with pytest.raises(NexusError) as refused:
        trust(project)
    assert found.problem in refused.value.message


def test_a_configuration_that_is_a_file_or_lies_elsewhere_is_refused(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    (one / ".nexus").write_text("not a folder")
    write_files(tmp_path, {"shared/config.toml": ""})
    (two / ".nexus").symlink_to(tmp_path / "shared")
    assert trust_state(one) == trust_state(two) == "untrusted"
    assert read_configuration(one).problem and read_configuration(two).problem


def test_a_link_inside_the_project_is_followed_and_its_content_counts(project: Path) -> None:
    write_files(project, {"tools/review/SKILL.md": "one"})
    (project / ".nexus" / "skills").symlink_to(project / "tools")
    trust(project)
    assert "skills/review/SKILL.md" in read_configuration(project).files
    (project / "tools" / "review" / "SKILL.md").write_text("two")
    assert trust_state(project) == "changed"


def test_a_record_that_cannot_be_written_is_one_clear_line(project: Path, tmp_path: Path) -> None:
    places().data.parent.mkdir(parents=True, exist_ok=True)
    places().data.write_text("in the way")
    with pytest.raises(NexusError) as failed:
        trust(project)
    assert (failed.value.kind, failed.value.exit_status) == ("internal", 1)
    assert "cannot be written" in failed.value.message


def test_a_record_that_cannot_take_its_place_leaves_no_draft_behind(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(NexusError, match="No space left"):
        trust(project)
    assert [path.name for path in places().data.rglob("*") if path.is_file()] == ["trust.lock"]
    assert trust_state(project) == "untrusted"


HOOKS_FILE = r"""{"hooks": {
  "PreToolUse": [{"matcher": "Bash", "hooks": [
    {"type": "command", "command": "\"$CLAUDE_PROJECT_DIR\"/tools/check.sh --all"},
    {"type": "command", "command": "echo second"}]}],
  "Stop": [{"hooks": [{"type": "command", "command": "echo done"}]}]}}"""
BESIDE = {
    ".agents/skills/review/SKILL.md": "---\nname: review\n---\nReview.",
    ".claude/skills/deploy/SKILL.md": "Deploy.",
    ".claude/skills/deploy/run.sh": "echo ok",
    ".claude/commands/git/tidy.md": "Tidy up.",
    ".claude/commands/notes.txt": "not a command",
    ".claude/settings.json": HOOKS_FILE,
    "tools/check.sh": "exit 0",
    ".mcp.json": '{"mcpServers": {"one": {"command": "serve-one"}, "two": {"url": "http://127.0.0.1:1"}}}',
    ".vscode/mcp.json": '{"servers": {"three": {"command": "serve-three"}}}',
}
CHANGES = {
    "skill .agents/skills/review": (".agents/skills/review/SKILL.md", "Review.", "Destroy."),
    "skill .claude/skills/deploy": (".claude/skills/deploy/run.sh", "echo ok", "echo no"),
    "command .claude/commands/git/tidy": (".claude/commands/git/tidy.md", "Tidy", "Wipe"),
    "hook .claude/settings.json: Stop echo done": (".claude/settings.json", "echo done", "echo over"),
    'hook .claude/settings.json: PreToolUse Bash "$CLAUDE_PROJECT_DIR"/tools/check.sh --all': (
        "tools/check.sh",
        "exit 0",
        "exit 1",
    ),
    "server .mcp.json: one": (".mcp.json", "serve-one", "serve-none"),
    "server .vscode/mcp.json: three": (".vscode/mcp.json", "serve-three", "serve-four"),
}
"""Item of each kind beside `.nexus` with a change of it: file, text before and after."""


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    folder = tmp_path / "foreign"
    for name, text in BESIDE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def read_beside_too(project: Path) -> tuple[set[str], set[str]]:
    """Return the keys of all items, and of those that are not in effect."""
    found = read_configuration(project, KINDS)
    return set(found.items), found.items.keys() - trusted_items(project, found).keys()


@pytest.mark.matrix
@pytest.mark.parametrize("key", CHANGES)
def test_what_is_there_for_other_agents_is_trusted_item_by_item(foreign: Path, key: str) -> None:
    items, waiting = read_beside_too(foreign)
    assert items == waiting and key in items and len(items) == 9
    trust(foreign)
    assert read_beside_too(foreign)[1] == set()
    name, before, after = CHANGES[key]
    (foreign / name).write_text((foreign / name).read_text().replace(before, after))
    now, waiting = read_beside_too(foreign)
    assert len(waiting) == 1 and items - now | {key} == {key}
    in_force = trusted_configuration(foreign, read_configuration(foreign, KINDS))
    assert set(in_force.items) == items - {key}
    assert after not in b"".join(data for part, data in in_force.files.items() if part != "../tools/check.sh").decode()


@pytest.mark.parametrize(("folder", "most"), [("skills/large", 3), ("commands/large", 5)])
def test_an_item_beside_with_too_many_files_is_named_and_left_out(
    foreign: Path, monkeypatch: pytest.MonkeyPatch, folder: str, most: int
) -> None:
    monkeypatch.setattr(trust_beside, "MAX_SKILL_FILES", 3)
    monkeypatch.setattr(trust_beside, "MAX_ENTRIES", 5)
    (foreign / ".claude" / folder).mkdir(parents=True)
    for number in range(most + 1):
        (foreign / ".claude" / folder / f"{number}.md").write_text("x")
    left_out = list(map(str, read_configuration(foreign, KINDS).left_out))
    assert left_out == [f".claude/{folder} exceeds the limit of {most} files"]


def test_an_item_beside_that_cannot_be_read_is_left_out_alone(foreign: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (foreign / ".claude" / "skills" / "away").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(foreign / ".agents" / "skills" / "review" / "pipe")
    (foreign / ".mcp.json").write_text("not JSON")
    found = read_configuration(foreign, KINDS)
    assert not found.problem and [str(line).partition(" ")[0] for line in found.left_out] == [
        ".agents/skills/review/pipe",
        ".claude/skills/away",
        ".mcp.json",
    ]
    assert "skill .claude/skills/deploy" in found.items and "skill .agents/skills/review" not in found.items
    assert "server .mcp.json: one" not in found.items


def test_hooks_and_servers_of_the_settings_are_items_of_their_own(project: Path) -> None:
    path = project / ".nexus" / "config.toml"
    (project / "check.sh").write_text("exit 0")
    path.write_text(
        'allow = "read"\n[[hook]]\nevent = "Stop"\ncommand = "./check.sh"\n[[hook]]\nevent = "Stop"\ncommand = "true"\n'
        '[mcp.one]\ncommand = ["serve"]\n'
    )
    keys = {"settings", "hook Stop ./check.sh", "hook Stop true", "server config.toml: one", "recipe careful"}
    assert set(read_configuration(project).items) == keys
    trust(project)
    assert pending(project) == set() and trust_state(project) == "trusted"
    (project / "check.sh").write_text("exit 1")
    assert pending(project) == {"hook Stop ./check.sh"}
    assert set(trusted_configuration(project).items) == keys - {"hook Stop ./check.sh"}


def test_what_waits_for_trust_is_counted_in_one_line(foreign: Path) -> None:
    assert describe_waiting(foreign) == (
        "Not active in this project: 2 skills, 1 command, 3 hooks and 3 MCP servers (see `nexus trust`)"
    )
    trust(foreign)
    assert describe_waiting(foreign) == ""


def test_folders_from_the_root_down_to_the_working_folder_count(foreign: Path) -> None:
    (foreign / ".git").mkdir()
    inner = foreign / "packages" / "one"
    write_files(inner, {".claude/skills/inner/SKILL.md": "Inner."})
    assert project_folders(inner) == (foreign, foreign / "packages", inner)
    assert list(trusted_folders(inner, KINDS)) == []
    trust(inner)
    assert [(folder, set(found.items)) for folder, found in trusted_folders(inner, KINDS)] == [
        (inner, {"skill .claude/skills/inner"})
    ]


@pytest.mark.matrix
@pytest.mark.parametrize(
    "command",
    [
        "sh tools/check.sh",
        "sh tools/check.sh; true",
        'sh -c "sh tools/check.sh"',
        'sh "$NEXUS_PROJECT_DIR/tools/check.sh"',
        "${CLAUDE_PROJECT_DIR:-.}/tools/check.sh",
        "$PWD/tools/check.sh | cat",
        "cd tools && sh ./check.sh",
        "sh {folder}/tools/check.sh",
        "(sh<tools/check.sh)",
    ],
)
def test_a_changed_script_revokes_its_hook_however_the_command_names_it(foreign: Path, command: str) -> None:
    hook = {"type": "command", "command": command.replace("{folder}", str(foreign))}
    (foreign / ".claude" / "settings.json").write_text(json.dumps({"hooks": {"Stop": [{"hooks": [hook]}]}}))
    trust(foreign)
    assert read_beside_too(foreign)[1] == set()
    (foreign / "tools" / "check.sh").write_text("exit 1")
    assert len(read_beside_too(foreign)[1]) == 1


def test_a_script_of_the_arguments_or_one_that_cannot_be_read_is_part_of_its_hook(foreign: Path) -> None:
    hook = {"type": "command", "command": "sh", "args": ["tools/check.sh"]}
    (foreign / ".claude" / "settings.json").write_text(json.dumps({"hooks": {"Stop": [{"hooks": [hook]}]}}))
    trust(foreign)
    (foreign / "tools" / "check.sh").unlink()
    (foreign / "tools" / "check.sh").symlink_to("/bin/true")
    assert len(read_beside_too(foreign)[1]) == 1
