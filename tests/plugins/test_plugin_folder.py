"""Plugin folders: the layouts that are read, what an item's hash covers, and what is refused in one line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from plugins.plugin_layouts import make_hookify, write_files

from nexus_cli.config.trust_items import TrustItem
from nexus_cli.core.errors import NexusError
from nexus_cli.plugins.plugin_folder import PluginFolder, read_plugin
from nexus_cli.reports.plugins import describe_item


def hashes(plugin: PluginFolder) -> dict[str, str]:
    return {key: item.sha256 for key, item in plugin.items.items()}


def test_claude_s_layout_brings_its_items_(tmp_path: Path) -> None:
    plugin = read_plugin(make_hookify(tmp_path, notes={"command": "python3", "args": ["-V"]}))
    assert (plugin.name, plugin.version) == ("hookify", "0.1.0")
    kinds = [key.partition(" ")[0] for key in plugin.items]
    assert kinds == ["agent", "command", "command", "hook", "server", "skill"], list(plugin.items)
    assert plugin.left_out == ()
    assert describe_item(plugin.items["command list"]) == "runs sh ${CLAUDE_PLUGIN_ROOT}/scripts/list.sh"
    assert '"python3"' in describe_item(plugin.items["server notes"])


def test_no_command_hides_behind_long_arguments(tmp_path: Path) -> None:
    hidden = {"command": "evil", "args": ["x" * 2000]}
    plugin = read_plugin(make_hookify(tmp_path, notes=hidden))
    assert '"evil"' in describe_item(plugin.items["server notes"])
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": "true " + " " * 2000 + "; evil"}]}]}
    write_files(plugin.root, {"hooks/hooks.json": json.dumps({"hooks": hooks})})
    plugin = read_plugin(plugin.root)
    (hook,) = (one for one in plugin.items.values() if one.kind == "hook")
    assert "; evil" in describe_item(hook)


@pytest.mark.parametrize(
    "head",
    [
        '"allowed-tools": Bash(rm *)',
        "allowed-tools : Bash(rm *)",
        "allowed-tools:\n# all\n  - Bash(rm *)",
        "allowed-tools: [Read,\n  Bash(rm *)]",
        "{Allowed-Tools: Bash(rm *)}",
        "description: none\u2028allowed-tools: Bash(rm *)",
        f"allowed-tools: {'Read, ' * 300}Bash(rm *)",
    ],
)
def test_what_a_guide_permits_is_shown_however_it_is_written(head: str) -> None:
    item = TrustItem("command", "a", {"a.md": f"---\n{head}\n---\nDo it.\n".encode()}, "a.md")
    assert "Bash(rm *)" in describe_item(item) and describe_item(item).startswith("permits ")


def test_codex_s_layout_and_paths_of_the_manifest_are_read(tmp_path: Path) -> None:
    manifest = {
        "name": "own",
        "skills": "./guides/",
        "commands": ["./special.md", "./more"],
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]},
        "mcpServers": {"here": {"url": "https://example.com/mcp"}},
        "apps": "./.app.json",
    }
    files = {
        ".codex-plugin/plugin.json": json.dumps(manifest),
        "guides/plan/SKILL.md": "---\ndescription: Plan\n---\nPlan it.\n",
        "special.md": "Special.\n",
        "more/web/button.md": "Draw.\n",
    }
    plugin = read_plugin(write_files(tmp_path, files))
    assert list(plugin.items) == [
        "command special",
        "command web:button",
        "hook Stop true",
        "server here",
        "skill plan",
    ]
    assert plugin.left_out == ("apps: not supported",)


def test_a_hash_covers_what_an_item_can_run(tmp_path: Path) -> None:
    before = hashes(read_plugin(make_hookify(tmp_path, notes={"command": "python3"})))
    (tmp_path / "core" / "rules.py").write_text('FORBIDDEN = "ls"\n')
    after = hashes(read_plugin(tmp_path))
    changed = {key.partition(" ")[0] for key in before if before[key] != after[key]}
    assert changed == {"command", "hook", "server"}, "a skill that names no file of the plugin stays"
    assert before["command help"] == after["command help"]
    (tmp_path / "skills/writing-rules/examples/one.md").write_text("Another.\n")
    assert hashes(read_plugin(tmp_path))["skill writing-rules"] != after["skill writing-rules"]


@pytest.mark.parametrize(
    ("manifest", "told"),
    [
        (None, "it has no plugin.json"),
        ("{", "is not a JSON object"),
        ("[" * 100_000, "is not a JSON object"),
        ('["x"]', "is not a JSON object"),
        ("{}", "`name`"),
        ('{"name": "../x"}', "`name`"),
        ('{"name": 3}', "`name`"),
    ],
)
def test_a_folder_without_a_valid_manifest_is_refused(tmp_path: Path, manifest: str | None, told: str) -> None:
    if manifest is not None:
        (tmp_path / "plugin.json").write_text(manifest)
    with pytest.raises(NexusError, match=told) as raised:
        read_plugin(tmp_path)
    assert raised.value.kind == "config"


def test_bad_parts_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    manifest = {"name": "bad", "commands": [3, "/etc", "../up", {"a": 1}], "hooks": "./no.json", "mcpServers": 4}
    files = {
        "plugin.json": "\ufeff" + json.dumps(manifest),
        "hooks/hooks.json": "{",
        ".mcp.json": "[]",
        "commands/fine.md": "Fine.\n",
        "bin/tool": "",
    }
    plugin = read_plugin(write_files(tmp_path, files))
    assert list(plugin.items) == ["command fine"]
    assert plugin.left_out[-1] == "programs in `bin`: not supported"
    assert len(plugin.left_out) == 9 and all("\n" not in line for line in plugin.left_out), plugin.left_out


def test_a_link_out_of_the_plugin_and_a_pipe_are_refused(tmp_path: Path) -> None:
    make_hookify(tmp_path)
    link = tmp_path / "commands" / "secret.md"
    link.symlink_to("/etc/hostname")
    with pytest.raises(NexusError, match="leads outside the project"):
        read_plugin(tmp_path)
    link.unlink()
    os.mkfifo(link)
    with pytest.raises(NexusError, match="not a regular file"):
        read_plugin(tmp_path)


def test_git_s_folder_and_compiled_files_of_a_source_are_not_read(tmp_path: Path) -> None:
    make_hookify(tmp_path)
    before = hashes(read_plugin(tmp_path))
    write_files(tmp_path, {".git/config": "x", "core/__pycache__/rules.pyc": "x"})
    assert hashes(read_plugin(tmp_path)) == before
    assert hashes(read_plugin(tmp_path, frozenset())) != before, "in the installed copy they count"
