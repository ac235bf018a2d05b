"""A record of trust that was written before stays valid, and nothing that no record covers takes effect.

Owns the keys and hashes of items; leaves what a change revokes to `test_trust`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from guide_files import SKILL

from nexus_cli.config.foreign_items import KINDS
from nexus_cli.config.paths import places
from nexus_cli.config.trust import read_configuration, trust, trust_state, trusted_items
from nexus_cli.guides.skills import find_guides
from nexus_cli.mcp.server_entries import read_servers
from nexus_cli.plugins.plugin_folder import read_plugin

HOOK = {"type": "command", "command": "sh check.sh", "timeout": 5}
FILES: dict[str, str] = {
    ".nexus/config.toml": (
        'allow = "read"\n[limits]\nmax_steps = 5\n[rules]\ndeny = ["bash(rm *)"]\n'
        '[[hook]]\nevent = "Stop"\ncommand = "sh check.sh "\n[mcp.own]\ncommand = ["serve", "\\u00e9"]\n'
    ),
    ".nexus/mcp.json": '{"mcpServers": {"plain": {"command": "serve", "args": ["check.sh"]}}}',
    ".nexus/SOUL.md": "Be kind.",
    ".nexus/recipes/careful.toml": "signals = true\n",
    ".nexus/commands/git/tidy.md": "Tidy up.",
    ".nexus/skills/deploy/SKILL.md": "Deploy.",
    ".nexus/skills/deploy/in/run.sh": "echo ok",
    ".agents/skills/review/SKILL.md": "Review.",
    ".claude/commands/git/fix.md": "Fix.",
    ".claude/settings.json": json.dumps(
        {"hooks": {"Stop": [{"hooks": [HOOK]}]}, "permissions": {"ask": ["Bash(dd:*)"]}}
    ),
    ".codex/hooks.json": json.dumps({"hooks": {"Stop": [{"hooks": [{"args": ["x"]}]}]}}),
    ".mcp.json": '{"mcpServers": {"one": {"url": "http://127.0.0.1:1"}}}',
    ".vscode/mcp.json": '{"servers": {"two": {"command": "./check.sh"}}}',
    "check.sh": "exit 0",
}
RECORD = {
    "skill .agents/skills/review": "62ce1642ae799a7190dc84d148f7a94fdfb64eb1e07c60b2ffa31bd66d3aaf9c",
    "command .claude/commands/git/fix": "bdd0099d1de88078188b6e67dd7947d447922d3a0b23faf58111a863558b374d",
    "hook .claude/settings.json: Stop sh check.sh": "dbb2972b5d7aeeeae52433ecb4221045cd643d891d4b391a4e9b513d2a4d6362",
    "rule .claude/settings.json: ask Bash(dd:*)": "4377726e06033b1fbfe8c002a15e8742e9d0f13dd6337dbe78f6632ffa884564",
    'hook .codex/hooks.json: Stop {"args": ["x"]}': "54a5db868271c2fb008887ded5a50b4616c7f0ccce00e97f38c7bd42473e7800",
    "server .mcp.json: one": "03ddc200bbb029b4ccf5f741b32cb49f23565685fd2664e63661109712f5a31f",
    "server .vscode/mcp.json: two": "6a06c169a05cb1230825cb4d2fc12eb9a5019bbcc9cdb2cd9291999adc5496de",
    "identity SOUL.md": "65deb4346b3e77ed7cfdc20941f60adebb613fcbfbf8b34b7b35df05588105da",
    "command git/tidy": "b05061a61c677a77d052984f09e563909f3405ebbe5cd504b6ccbff6bad65688",
    "settings": "a2ad84a84f79e24ed09b9422af3c56986a93e2ee2c21805a6327a5f65c874110",
    "rule deny bash(rm *)": "6a60371036a3c7a95279c37cfc29a4d4fd9aa42da01851462ee3b6afde369fff",
    "hook Stop sh check.sh": "01354341cf5d91e6429716cc1e2091b9a3dbea7c9e2f17a0486b3938543c3335",
    "server config.toml: own": "e6e95745d8536209437396b105caa27bf92c0c55eebcf21dd3cdb5c9cb497634",
    "server plain": "d7806cbbffe17fdcae65964e9d200cda216a69a896f1400640db2617628cf766",
    "recipe careful": "573416e72a41775011cbdff1f1902da19097b3c8b715bebae0480f7e0fca8479",
    "skill deploy": "f831058cd7e63f76f0733f93a8c586575aacef293db72c9c56230ba5e7919bf1",
}
"""What `trust` wrote for `FILES` in version 0.2."""
PLUGIN = {
    "plugin.json": '{"name": "tools", "mcpServers": {"mcpServers": {"one": {"command": "serve"}}}}',
    "skills/look/SKILL.md": "Look.",
    "commands/list.md": "List: !`sh ${CLAUDE_PLUGIN_ROOT}/list.sh`",
    "hooks/hooks.json": json.dumps({"hooks": {"Stop": [{"hooks": [HOOK]}]}}),
}
PLUGIN_RECORD = {
    "command list": "93ecd39950f7298d4931a57433e351a49fb4431865b6de5d8de43d9919eea924",
    "hook Stop sh check.sh": "74c09ca7de2003f8f3fed12b5b91f227e328c9cee391dc84aa9b069cdbab7048",
    "server one": "fe44e04792f39488b3a6254963c251374d084cc3b70284b7a1ff54a3e0fcb4e5",
    "skill look": "66089a1cd052d379a081b717cf84b0cada9b7aa8a37f32f3479a476ff45282d4",
}
"""What `nexus plugin add` wrote for `PLUGIN` in version 0.2."""


def write(folder: Path, files: dict[str, Any]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".git").mkdir(parents=True)
    return tmp_path / "project"


def test_an_item_of_each_kind_has_the_key_and_the_hash_of_the_record(project: Path) -> None:
    write(project, FILES)
    found = read_configuration(project, KINDS)
    assert {key: item.sha256 for key, item in found.items.items()} == RECORD
    places().data.mkdir(parents=True, exist_ok=True)
    entry = {"items": RECORD, "at": "2026-11-01T00:00:00Z"}
    (places().data / "trust.json").write_text(json.dumps({"version": 2, "projects": {str(project): entry}}))
    assert trust_state(project, found) == "trusted" and [*trusted_items(project, found)] == [*found.items]


def test_an_item_of_each_kind_of_a_plugin_has_the_key_and_the_hash_of_the_record(tmp_path: Path) -> None:
    plugin = read_plugin(write(tmp_path / "tools", PLUGIN))
    assert {key: item.sha256 for key, item in plugin.items.items()} == PLUGIN_RECORD


def test_rules_of_codex_that_forbid_or_ask_are_items_and_what_else_is_there_is_named(project: Path) -> None:
    rules = """prefix_rule(pattern=["git", ["push", "fetch"]], decision="prompt", justification="it is slow")
prefix_rule(pattern=["rm"], decision="forbidden")
prefix_rule(pattern=["ls"])
words = ["a b"]
prefix_rule(pattern=words, decision="forbidden")
prefix_rule(pattern=["a b"], decision="forbidden")
prefix_rule(pattern=[], decision="forbidden")
"""
    many = f"prefix_rule(pattern={[[str(number) for number in range(40)]] * 9}, decision='forbidden')"
    inner = {
        "a.rules": rules + many,
        "b.rules": "prefix_rule(",
        "c.rules": "(" * 9999,
        "README.md": "(",
        "in/d.rules": rules,
    }
    write(project, {f".codex/rules/{name}": text for name, text in inner.items()})
    found = read_configuration(project, ("rule",))
    rules_of_a = ("ask Bash(git push *)", "ask Bash(git fetch *)", "deny Bash(rm *)")
    assert [*found.items] == [f"rule .codex/rules/a.rules: {rule}" for rule in rules_of_a]
    said = [str(one) for one in found.left_out]
    for line, why in (
        ("a.rules line 4: ", "only prefix_rule is supported"),
        ("a.rules line 5: ", "an argument is not a constant"),
        ("a.rules line 6: ", "'a b' must be a string of letters, digits and _./:=@%+,-"),
        ("a.rules line 7: ", "`pattern` must be a non-empty list of words"),
        ("a.rules line 8: ", "the file has more than 1,000 commands"),
        ("a.rules ", "has rules that allow calls: a project cannot allow calls"),
        ("b.rules ", "cannot be parsed"),
        ("c.rules ", "cannot be parsed"),
    ):
        assert any(f".codex/rules/{line}{why}" in one for one in said), (line, why, said)
    assert len(said) == 8


def test_a_file_beside_rules_of_codex_does_not_switch_them_off(project: Path) -> None:
    rules = project / ".codex" / "rules"
    write(project, {".codex/rules/a.rules": 'prefix_rule(pattern=["rm"], decision="forbidden")'})
    (rules / ".#a.rules").symlink_to("me@here.1:2")
    (rules / "b.rules").symlink_to("nowhere")
    (rules / "c.rules").write_text("#" * 65_537)
    found = read_configuration(project, ("rule",))
    assert [*found.items] == ["rule .codex/rules/a.rules: deny Bash(rm *)"]
    assert len(said := [str(one) for one in found.left_out]) == 2, said
    assert said[0].startswith(".codex/rules/b.rules cannot be read")
    assert said[1] == ".codex/rules/c.rules is larger than 64 KiB"


def test_servers_in_the_form_of_vs_code_wait_for_trust_too(project: Path) -> None:
    write(project, {".nexus/mcp.json": {"servers": {"one": {"command": "serve"}}}})
    assert read_servers(project, {}).entries == {} and trust_state(project) == "untrusted"
    trust(project)
    assert list(read_servers(project, {}).entries) == ["one"]
    write(project, {".nexus/mcp.json": {"servers": {"one": {"command": "other"}}}})
    assert read_servers(project, {}).entries == {}


def test_no_entry_takes_effect_under_the_trusted_key_of_another_one(project: Path) -> None:
    write(project, {".mcp.json": {"mcpServers": {"one": {"command": "serve"}}}})
    trust(project)
    assert list(read_servers(project, {}).entries) == ["one"]
    write(project, {".mcp.json": {"mcpServers": {"one": {"command": "other"}, "one ": {"command": "serve"}}}})
    assert read_servers(project, {}).entries == {}


@pytest.mark.matrix
def test_an_entry_that_is_nested_too_deeply_brings_no_other_one_into_effect(project: Path) -> None:
    for depth in range(880, 1000, 3):  # what is too deep depends on the depth of the stack
        entries = f'{{"mcpServers": {{"one": {{"command": "serve"}}, "deep": {"[" * depth}{"]" * depth}}}}}'
        write(project, {".mcp.json": entries})
        assert read_servers(project, {}).entries == {}


def test_each_file_of_a_skill_counts_whatever_its_folder_is_called(project: Path) -> None:
    write(project, {".nexus/skills/one /SKILL.md": "Safe.", ".nexus/skills/one /z.sh": "exit 0"})
    trust(project)
    assert [skill.description for skill in find_guides(project, SKILL)[0]] == ["Safe."]
    write(project, {".nexus/skills/one /SKILL.md": "Other."})
    assert find_guides(project, SKILL)[0] == ()
