"""Plugin folders: the layouts that are read, what an item's hash covers, and what is refused in one line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from plugins.plugin_layouts import make_hookify
from project_files import write_files

from nexus_cli.config.trust_items import TrustItem
from nexus_cli.core.errors import NexusError
from nexus_cli.hooks.hook_list import ACTIVE, UNSUPPORTED, list_plugin_hooks
from nexus_cli.plugins.installed_plugins import InstalledPlugin, PluginSource
from nexus_cli.plugins.marketplace import find_market_plugin
from nexus_cli.plugins.plugin_folder import PluginFolder, read_plugin
from nexus_cli.reports.plugins import plugin_object
from nexus_cli.reports.trust import describe_item


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
        (None, "plugin.json is missing"),
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
    with pytest.raises(NexusError, match="links to a place outside the project"):
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


def test_what_a_marketplace_lists_joins_the_manifest(tmp_path: Path) -> None:
    """Claude Code adds the parts that an entry names to those of the plugin.json."""
    stop = {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}
    files = {
        "plugin.json": json.dumps({"name": "kit", "version": "2", "hooks": stop}),
        "commands/a.md": "A.\n",
        "b.md": "B.\n",
    }
    entry = {
        "name": "shelf",
        "version": "1",
        "source": "./kit",
        "commands": "./b.md",
        "hooks": {"SessionEnd": stop["Stop"]},
    }
    plugin = read_plugin(write_files(tmp_path, files), listed=entry)
    assert list(plugin.items) == ["command a", "command b", "hook SessionEnd true", "hook Stop true"]
    assert (plugin.name, plugin.version, plugin.left_out) == ("kit", "2", ())
    again = read_plugin(write_files(tmp_path / "copy", {name: data.decode() for name, data in plugin.files.items()}))
    assert hashes(again) == hashes(plugin), "the copy holds what was listed"
    described = read_plugin(tmp_path, listed={"name": "kit", "version": "3", "source": "./kit", "tags": ["x"]})
    assert hashes(described) == hashes(read_plugin(tmp_path)), "another version there changes nothing that was accepted"


def test_what_claude_reads_of_a_plugin_and_nexus_does_not_is_named(tmp_path: Path) -> None:
    manifest = {"name": "kit", "author": {"name": "x"}, "userConfig": {"KEY": {}}, "x\x1by": 1}
    servers = {"a": {"command": "python3", "envFile": ".env", "timeout": 5}, "b": {"command": "python3"}}
    files = {
        "plugin.json": json.dumps(manifest),
        ".mcp.json": json.dumps({"mcpServers": servers}),
        "commands/a.md": "---\nhooks: x\n---\nIn ${CLAUDE_PLUGIN_DATA}, of ${CLAUDE_PLUGIN_ROOT}.\n",
        "workflows/w.js": "load('user_config.json')",
        "hooks/x.sh": "echo ${user_config.KEY}",
    }
    plugin = read_plugin(write_files(tmp_path, files))
    assert plugin.left_out == (
        "server a: envFile, timeout: not read",
        "workflows: not supported",
        "userConfig, x y in the manifest: not supported",
        "${user_config.KEY} in hooks/x.sh: not supported",
        "CLAUDE_PLUGIN_DATA in commands/a.md: not supported",
    )
    shown = plugin_object(plugin, "here", {}, {})["left_out"]
    assert [one.partition(": ")[2] for one in shown[5:]] == [
        "hooks is ignored",
        "nexus does not replace ${CLAUDE_PLUGIN_DATA}",
    ], "the plugin's own folder is filled in"


def test_a_hook_whose_command_needs_what_is_not_filled_in_does_not_run(tmp_path: Path) -> None:
    stop = [
        {
            "hooks": [
                {"command": f"rm -rf {place}/old"}
                for place in ("${CLAUDE_PLUGIN_DATA}", "${user_config.DIR}", "check_user_config.py")
            ]
        }
    ]
    plugin = read_plugin(write_files(tmp_path, {"plugin.json": json.dumps({"name": "kit", "hooks": {"Stop": stop}})}))
    found = list_plugin_hooks(InstalledPlugin("kit", PluginSource(""), hashes(plugin), plugin))
    assert {hook.table.command: hook.state for hook in found} == {
        "rm -rf ${CLAUDE_PLUGIN_DATA}/old": UNSUPPORTED,
        "rm -rf ${user_config.DIR}/old": UNSUPPORTED,
        "rm -rf check_user_config.py/old": ACTIVE,
    }


@pytest.mark.parametrize("text", ["{", "[]", '{"plugins": 5}'])
def test_a_marketplace_that_cannot_be_read_is_named_and_hides_no_plugin(tmp_path: Path, text: str) -> None:
    write_files(tmp_path, {".claude-plugin/marketplace.json": text})
    with pytest.raises(NexusError, match=r"marketplace\.json: is not a JSON object with a list of plugins"):
        find_market_plugin(tmp_path, "one", is_folder=False)
    assert find_market_plugin(tmp_path, "", is_folder=True) is None, "the folder has a plugin of its own"
