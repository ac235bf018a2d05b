"""The record of plugins: what is in effect, what a changed or broken copy or record turns off."""

from __future__ import annotations

import json
import os
from pathlib import Path
from unittest.mock import Mock

import pytest
from guide_files import COMMAND, SKILL
from plugins.plugin_layouts import make_hookify
from project_files import write_files

from nexus_cli.config.paths import places
from nexus_cli.config.protected_places import SecretPlaces
from nexus_cli.config.record_file import TRUST_RECORD
from nexus_cli.core.errors import NexusError
from nexus_cli.guides.skills import find_guides
from nexus_cli.mcp.server_entries import read_servers
from nexus_cli.plugins import plugin_folder, plugin_source
from nexus_cli.plugins.installed_plugins import (
    PLUGIN_RECORD,
    PluginSource,
    find_plugin,
    has_plugins,
    installed_plugins,
    plugins_root,
)
from nexus_cli.plugins.plugin_folder import read_plugin
from nexus_cli.plugins.plugin_source import parse_source
from nexus_cli.plugins.python_plugins import describe_problems
from nexus_cli.plugins.store_plugin import remove_plugin, store_plugin


def install(root: Path, *keys: str) -> None:
    plugin = read_plugin(make_hookify(root))
    store_plugin(plugin, PluginSource(str(root)), keys or plugin.items, PluginSource(str(root)))


def states() -> dict[str, str]:
    return {item.key: state for item, state in find_plugin("hookify").items("skill", "command", "hook", "server")}


def test_only_what_was_accepted_is_in_effect(tmp_path: Path) -> None:
    assert not has_plugins() and installed_plugins() == []
    install(tmp_path / "a", "skill writing-rules")
    assert has_plugins() and states()["skill writing-rules"] == "active"
    assert {state for key, state in states().items() if key != "skill writing-rules"} == {"off"}
    remove_plugin("hookify")
    assert not has_plugins() and not plugins_root().exists()


def test_a_record_that_cannot_be_read_is_told_in_one_line(tmp_path: Path) -> None:
    install(tmp_path / "a")
    PLUGIN_RECORD.path.write_text('{"plugins": ')
    TRUST_RECORD.path.mkdir()
    assert installed_plugins() == []
    trust, plugins = describe_problems()
    assert "trust.json cannot be read: Is a directory; no project is trusted" in trust
    assert "plugins.json cannot be read: it is not a record of nexus; no plugin is in effect" in plugins
    TRUST_RECORD.path.rmdir()
    TRUST_RECORD.path.write_text('{"projects": {"/a": ' + "[" * 5000)
    assert "it is not a record of nexus" in describe_problems()[0]
    TRUST_RECORD.path.unlink()
    os.mkfifo(TRUST_RECORD.path)
    assert "trust.json cannot be read: is not a regular file; no project is trusted" in describe_problems()[0], (
        "it waits"
    )


def test_a_server_has_the_name_that_rules_and_agents_of_claude_code_use(tmp_path: Path) -> None:
    plugin = read_plugin(make_hookify(tmp_path / "a", notes={"command": "true"}))
    store_plugin(plugin, PluginSource("a"), plugin.items, PluginSource("a"))
    assert list(read_servers(tmp_path).entries) == ["plugin_hookify_notes"]


def test_of_two_that_add_the_same_name_one_wins_and_drafts_of_the_killed_go(tmp_path: Path) -> None:
    install(tmp_path / "one")
    (plugins_root() / ".0123").mkdir()
    plugin = read_plugin(make_hookify(tmp_path / "two"))
    with pytest.raises(NexusError, match="with this name is already installed"):
        store_plugin(plugin, PluginSource("two"), plugin.items, PluginSource("two"), is_new=True)
    assert find_plugin("hookify").source == find_plugin("hookify").update_source == PluginSource(str(tmp_path / "one"))
    store_plugin(plugin, PluginSource("two"), plugin.items, PluginSource("two"))
    assert [path.name for path in plugins_root().iterdir()] == ["hookify"]
    named = PluginSource("/home/user@corp/repo", inner="p", ref="main")
    store_plugin(plugin, PluginSource("/home/user@corp/repo", "1" * 40, "p"), plugin.items, named)
    assert find_plugin("hookify").update_source == named


def test_each_change_of_the_copy_is_seen_in_the_same_process(tmp_path: Path) -> None:
    install(tmp_path / "a")
    root = find_plugin("hookify").root
    assert set(states().values()) == {"active"}
    (root / "new.py").write_text("x")
    assert states()["skill writing-rules"] == "active" and set(states().values()) == {"active", "changed"}
    (root / "new.py").unlink()
    assert set(states().values()) == {"active"}
    skill = root / "skills" / "writing-rules" / "SKILL.md"
    skill.chmod(0o600)
    skill.write_text(skill.read_text().replace("brief", "terse"))
    assert "skill writing-rules" in find_plugin("hookify").describe_change()
    skill.unlink()
    assert "skill writing-rules" in find_plugin("hookify").changed
    (root / ".claude-plugin" / "plugin.json").unlink()
    assert "plugin hookify is off: plugin.json is missing" in find_plugin("hookify").describe_change()
    assert find_guides(tmp_path, COMMAND)[0] == ()


@pytest.mark.parametrize("text", ["", "{", '{"plugins": 3}', '{"plugins": {"x": 4}}', "[" * 100_000])
def test_nothing_is_in_effect_with_an_invalid_record(tmp_path: Path, text: str) -> None:
    install(tmp_path / "a")
    (places().data / "plugins.json").write_text(text)
    assert installed_plugins() == []
    with pytest.raises(NexusError, match="not installed"):
        find_plugin("hookify")


def test_a_guide_whose_name_is_taken_has_its_plugin_s_before_it(tmp_path: Path) -> None:
    install(tmp_path / "a")
    own = places().config / "commands"
    write_files(own, {"list.md": "Mine.\n"})
    found = {one.name: one for one in find_guides(tmp_path, COMMAND)[0]}
    assert set(found) == {"help", "list", "hookify:list"} and found["list"].origin == "personal"
    assert not any(one.shadowed for one in found.values())
    (skill,) = find_guides(tmp_path, SKILL)[0]
    assert (skill.name, skill.whole_name, skill.shown_origin) == (
        "writing-rules",
        "hookify:writing-rules",
        "plugin hookify",
    )
    assert skill.files == {"examples/one.md": b"An example.\n"}


def test_its_files_may_be_read_and_the_data_folder_beside_not(tmp_path: Path) -> None:
    install(tmp_path / "a")
    secrets = SecretPlaces(places(), tmp_path)
    assert secrets.find(plugins_root() / "hookify" / "hooks" / "pretooluse.py") is None
    assert secrets.find(places().data / "plugins.json") and secrets.find(places().data / "trust.json")


def test_a_broken_record_of_items_is_no_consent(tmp_path: Path) -> None:
    install(tmp_path / "a")
    path = places().data / "plugins.json"
    record = json.loads(path.read_text())
    record["plugins"]["hookify"]["items"] = dict.fromkeys(record["plugins"]["hookify"]["items"], "0")
    path.write_text(json.dumps(record))
    assert set(states().values()) == {"changed"}
    record["plugins"]["hookify"]["items"] = 4
    path.write_text(json.dumps(record))
    assert set(states().values()) == {"off"}


def test_a_warning_of_ssh_is_not_named_as_the_reason_of_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = tmp_path / "git"
    told = "** WARNING: the key exchange is old", "", "Warning: added 'h' to the known hosts", "fatal: no such place"
    git.write_text("#!/bin/sh\n" + "".join(f'echo "{line}" >&2\n' for line in told) + "exit 128\n")
    git.chmod(0o755)
    monkeypatch.setattr(plugin_source, "find_program", lambda name: str(git))
    source = parse_source("ssh://git@h/x", tmp_path)
    with pytest.raises(NexusError, match="fatal: no such place") as caught, plugin_source.open_source(source):
        pass
    assert "arning" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("https://example.com:8080/x", ""),
        ("git@example.com:x/y", ""),
        ("ssh://git@h:22/x.git", ""),
        ("obra/superpowers", "https://github.com/obra/superpowers"),
    ],
)
def test_a_repository_is_named_with_a_commit_a_branch_or_a_plugin(tmp_path: Path, text: str, place: str) -> None:
    commit, place = "a1" * 20, place or text
    assert parse_source(text, tmp_path) == PluginSource(place, "", "", "HEAD")
    assert parse_source(f"{text}@{commit}:plugins/x", tmp_path) == PluginSource(place, commit, "plugins/x")
    assert parse_source(f"{text}@feature/one:x", tmp_path) == PluginSource(place, "", "x", "feature/one")
    assert parse_source(f"{place}@{commit}:plugins/x", tmp_path).text == f"{place}@{commit}:plugins/x"
    for wrong in (f"{text}@{commit}:../x", f"{text}@-x", f"{text}:/etc"):
        with pytest.raises(NexusError, match="not a folder in a repository"):
            parse_source(wrong, tmp_path)
    with pytest.raises(NexusError, match="nexus does not know this marketplace"):
        parse_source("x@market", tmp_path)


def test_the_copies_of_a_whole_marketplace_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"plugin{number}" for number in range(100)]
    for name in names:
        write_files(plugins_root() / name, {"plugin.json": json.dumps({"name": name}), "commands/go.md": "Go.\n"})
    with PLUGIN_RECORD.change() as known:
        known |= {name: {"source": name, "items": {}} for name in names}
    read = Mock(side_effect=read_plugin)
    monkeypatch.setattr(plugin_folder, "read_plugin", read)
    assert [one.name for one in installed_plugins()] == [one.name for one in installed_plugins()] == sorted(names)
    assert read.call_count == len(names)


def test_a_data_folder_that_cannot_be_looked_at_has_no_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXUS_HOME", str(tmp_path / ("x" * 300)))  # as without permission, which root never lacks
    assert not has_plugins() and installed_plugins() == []
