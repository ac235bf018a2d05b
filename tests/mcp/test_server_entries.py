"""Servers from the files of a person and of a project. Nothing is started."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from search import sample

from nexus_cli.config import trust
from nexus_cli.config.foreign_items import KINDS, SERVER_KEYS
from nexus_cli.config.paths import places
from nexus_cli.mcp.server_entries import parse_entry, read_servers


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NEXUS_HOME", str(tmp_path / "home"))
    places().config.mkdir(parents=True)
    (tmp_path / "project" / ".git").mkdir(parents=True)
    return tmp_path / "project"


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def test_personal_servers_come_from_both_files_and_broken_ones_are_one_line_each(home: Path) -> None:
    write(places().settings, '[mcp.files]\ncommand = ["files", "."]\nenv = ["TOKEN", "MODE=ro"]\n[mcp.both]\nx = 1\n')
    servers: dict[str, Any] = {
        "files": {"command": "other"},
        "web": {"url": "https://example.org/mcp", "headers": {"Authorization": "Bearer ${WEB_KEY}"}},
        "off": {"command": "x", "disabled": True},
        "of.f": {"command": "x"},
        "of_f": {"command": "y"},
        "bad name!": {"command": "x"},
        "old": {"url": "https://example.org", "type": "sse"},
        "list": ["x"],
        "input": {"command": "x", "env": {"KEY": "${input:key}"}},
        "unset": {"command": "x", "args": ["${NOT_SET_ANYWHERE}"]},
    }
    write(places().config / "mcp.json", {"mcpServers": servers})
    found = read_servers(home, {})
    assert list(found.entries) == ["files", "of.f", "web"]
    files, _, web = found.entries.values()
    assert (files.command, files.env, files.values) == (("files", "."), ("TOKEN",), {"MODE": "ro"})
    assert web.headers == {"Authorization": "Bearer ${WEB_KEY}"}, "a key is read only when it is sent"
    named = "\n".join(found.problems)
    assert len(found.problems) == 7 and named.count("\n") == 6
    for words in (
        "mcp.json) is skipped: its tool names would be the same as those of of.f; rename one of them",
        "must have either `command` or `url`",
        "transport sse",
        "is not a table",
        "${input:key}",
        "NOT_SET_ANYWHERE",
    ):
        assert words in named, words


@pytest.mark.parametrize("text", ["{", "[]", '{"mcpServers": []}', "\ufeff{}", "\x00", '{"mcpServers": ' + "[" * 5000])
def test_a_broken_file_is_a_line_and_the_others_count(home: Path, text: str) -> None:
    write(places().settings, '[mcp.files]\ncommand = ["files"]\n')
    write(places().config / "mcp.json", text)
    found = read_servers(home, {})
    assert list(found.entries) == ["files"] and len(found.problems) <= 1


def test_a_file_is_not_read_where_it_has_more_levels_than_settings(home: Path) -> None:
    write(places().config / "mcp.json", '{"mcpServers": {"a": {"command": "a", "x": ' + "[" * 62 + "]" * 62 + "}}}")
    found = read_servers(home, {})
    assert not found.entries and found.problems[0].endswith(
        "mcp.json is not read: nested too deeply: at most 64 levels"
    )


@pytest.mark.parametrize("file", [".mcp.json", ".vscode/mcp.json", ".nexus/mcp.json", ".nexus/config.toml"])
def test_a_server_of_a_project_counts_after_trust_until_its_entry_changes(home: Path, file: str) -> None:
    key = "servers" if ".vscode" in file else "mcpServers"

    def put(command: str) -> None:
        table = f'[mcp.team]\ncommand = ["{command}"]\n'
        write(home / file, table if file.endswith("toml") else {key: {"team": {"command": command}}})

    put("safe")
    assert read_servers(home, {}).entries == {}
    trust.trust(home, trust.read_configuration(home, KINDS))
    entry = read_servers(home, {}).entries["team"]
    assert (entry.command, entry.source, entry.cwd, entry.file) == (("safe",), "project", str(home), file)
    put("evil")
    assert read_servers(home, {}).entries == {}


@pytest.mark.matrix
@pytest.mark.parametrize("file", [".mcp.json", ".vscode/mcp.json", ".nexus/mcp.json", ".nexus/config.toml"])
@pytest.mark.parametrize(
    "entry",
    sample(
        [
            {"command": "tools/run.py"},
            {"command": "python", "args": ["-u", "./tools/run.py"]},
            {"command": "python ${workspaceFolder}/tools/run.py"},
            {"command": ["sh", "-c", "cd tools && exec ./run.py"]},
            {"command": "python", "args": ["run.py"], "cwd": "tools"},
            {"command": "node", "env": {"NODE_OPTIONS": "--require ./tools/run.py"}},
        ],
        4,
    ),
)
def test_a_script_of_a_project_s_server_is_a_part_of_it(home: Path, file: str, entry: dict[str, Any]) -> None:
    """It runs without a sandbox, and an edit in the project asks nobody."""
    key = "servers" if ".vscode" in file else "mcpServers"
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in entry.items() if name != "env")
    lines += "".join(f"env.{name} = {json.dumps(value)}\n" for name, value in entry.get("env", {}).items())
    write(home / file, f"[mcp.team]\n{lines}" if file.endswith("toml") else {key: {"team": entry}})
    write(home / "tools" / "run.py", "print(1)")
    trust.trust(home, trust.read_configuration(home, ("server",)))
    assert list(read_servers(home, {}).entries) == ["team"] and trust.trust_state(home) in ("trusted", "nothing")
    write(home / "tools" / "run.py", "print(2)")
    assert read_servers(home, {}).entries == {}
    write(home / "tools" / "run.py", "#" * 5_000_000)
    trust.trust(home, trust.read_configuration(home, ("server",)))
    found = read_servers(home, {})
    assert found.entries == {} and "too large" in found.problems[0]


def test_a_server_of_a_project_never_takes_a_personal_name(home: Path) -> None:
    write(places().settings, '[mcp.team]\ncommand = ["mine"]\n')
    write(home / ".mcp.json", {"mcpServers": {"team": {"command": "theirs"}}})
    trust.trust(home, trust.read_configuration(home, KINDS))
    found = read_servers(home, {})
    assert found.entries["team"].command == ("mine",)
    assert len(found.problems) == 1 and "another server has this name" in found.problems[0]


def test_variables_are_filled_in() -> None:
    value = {"command": "run", "args": ["${HERE}", "${GONE:-else}"], "env": {"A": "${A}", "B": "x${HERE}"}}
    entry = parse_entry("one", value, {"HERE": "there"})
    assert entry is not None and entry.command == ("run", "there", "else")
    assert entry.env == ("A",) and entry.values == {"B": "xthere"}


def test_the_keys_of_an_entry_that_are_read_are_those_of_the_list() -> None:
    asked = {"description"}  # changes nothing

    class Entry(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            asked.add(key)
            return super().get(key, default)

        def __contains__(self, key: object) -> bool:
            asked.add(str(key))
            return super().__contains__(key)

    assert parse_entry("one", Entry(command="run", transport="stdio"), {}) is not None
    assert asked == SERVER_KEYS
    with pytest.raises(ValueError, match="the transport sse is obsolete"):
        parse_entry("one", {"url": "https://example.org", "transport": "sse"}, {})


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ({"notes": {"command": "mine", "disabled": True}}, "notes"),
        ({"notes": {"command": "mine", "args": ["${NOT_SET_ANYWHERE}"]}}, "notes"),
        ({"my_notes": {"command": "mine"}}, "my.notes"),
        ({"notes": {"command": "mine"}}, "notes__x"),
    ],
)
def test_a_server_of_a_project_is_never_called_by_a_rule_for_a_personal_one(
    home: Path, mine: dict[str, Any], theirs: str
) -> None:
    write(places().config / "mcp.json", {"mcpServers": mine})
    write(home / ".mcp.json", {"mcpServers": {theirs: {"command": "theirs"}, "other": {"command": "x"}}})
    trust.trust(home)
    found = read_servers(home)
    assert theirs not in found.entries or found.entries[theirs].source == "personal"
    assert "other" in found.entries and any(theirs in line for line in found.problems)


@pytest.mark.parametrize("name", ["config.toml", "mcp.json"])
def test_a_pipe_in_place_of_a_personal_file_is_one_line(home: Path, name: str) -> None:
    os.mkfifo(places().config / name)
    (problem,) = read_servers(home).problems
    assert problem == f"{places().config / name} is not a file"


def test_a_personal_file_over_the_limit_is_not_called_broken(home: Path) -> None:
    write(places().config / "mcp.json", {"mcpServers": {"a": {"command": "a" * (1 << 20)}}})
    (problem,) = read_servers(home).problems
    assert problem == f"{places().config / 'mcp.json'} has more than 1,048,576 bytes"


def test_while_a_personal_file_is_broken_no_server_of_a_project_counts(home: Path) -> None:
    write(places().config / "mcp.json", "{")
    write(home / ".mcp.json", {"mcpServers": {"notes": {"command": "theirs"}}})
    trust.trust(home)
    assert not read_servers(home).entries


@pytest.mark.parametrize(
    "entry",
    [
        {"url": "http://127.0.0.1:9/?k=${OPENAI_API_KEY}"},
        {"url": "http://127.0.0.1:9/", "headers": {"X": "${ANTHROPIC_API_KEY}"}},
        {"command": "x", "env": ["MISTRAL_API_KEY"]},
        {"command": "x", "args": ["${env:OPENAI_API_KEY:-none}"]},
    ],
)
def test_a_server_of_a_project_gets_no_key_of_a_provider(home: Path, entry: dict[str, Any]) -> None:
    environ = {"OPENAI_API_KEY": "secret", "ANTHROPIC_API_KEY": "secret", "MISTRAL_API_KEY": "secret"}
    with pytest.raises(ValueError, match="only your own servers can get a provider key"):
        parse_entry("one", entry, environ, "project", ".mcp.json", home)
    made = parse_entry("one", entry, environ)
    assert made is not None and "secret" not in made.display_target
