"""ContextLoader: layers, trust, merging, broken files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.config.paths import defaults_dir
from nexus_cli.context.loader import ContextLoader, merge, tighten_settings
from nexus_cli.context.sysinfo import get_system_info
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import LEVELS
from nexus_cli.sections.instruction_files import instruction_layers


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The global folder; HOME is a folder of its own."""
    monkeypatch.setenv("NEXUS_HOME", str(tmp_path / "nexus"))
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    folder = tmp_path / "nexus" / "config"
    folder.mkdir(parents=True)
    (tmp_path / "me").mkdir()
    return folder


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with a folder two levels deep."""
    folder = tmp_path / "me" / "repo"
    (folder / "pkg" / "deep").mkdir(parents=True)
    (folder / ".git").mkdir()
    return folder


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def servers(**named: str) -> str:
    return json.dumps({"mcpServers": {name: {"command": command} for name, command in named.items()}})


def test_layers_stand_from_the_outermost_to_the_innermost_under_headers_with_their_folder(
    config: Path, repo: Path
) -> None:
    put(config / "NEXUS.md", "G")
    put(repo / "NEXUS.md", "R\n")
    put(repo / "pkg" / "AGENTS.md", "P")
    put(repo / "pkg" / "deep" / "NEXUS.md", "D")
    cwd = repo / "pkg" / "deep"
    loaded = ContextLoader(cwd).load()
    assert loaded.system_prompt == "\n\n".join(
        [
            f"# Global Configuration ({config})\nG",
            f"# Ancestor Configuration ({repo})\nR",
            f"# Ancestor Configuration ({repo / 'pkg'})\nP",
            f"# Project Configuration ({cwd})\nD",
            f"# Environment\n{get_system_info(True, cwd)}",
        ]
    )
    assert [layer.name for layer in loaded.sources.layers] == ["global", "ancestor", "ancestor", "local"]
    assert loaded.sources.files == (
        config / "NEXUS.md",
        repo / "NEXUS.md",
        repo / "pkg" / "AGENTS.md",
        cwd / "NEXUS.md",
    )
    assert [layer.folder for layer in loaded.sources.ancestors] == [repo, repo / "pkg"]
    assert loaded.sources.local and loaded.sources.local.folder == cwd
    assert loaded.sources.global_layer and loaded.sources.global_layer.path == config / "NEXUS.md"


def test_the_root_of_the_repository_is_read_once_when_it_is_the_folder(config: Path, repo: Path) -> None:
    put(repo / "NEXUS.md", "once")
    assert ContextLoader(repo).load().system_prompt.count("once") == 1


def test_outside_a_repository_no_ancestor_is_read(config: Path, tmp_path: Path) -> None:
    put(tmp_path / "plain" / "NEXUS.md", "above")
    cwd = tmp_path / "plain" / "sub"
    cwd.mkdir()
    assert "above" not in ContextLoader(cwd).load().system_prompt


def test_folders_above_the_repository_are_not_read(config: Path, repo: Path, tmp_path: Path) -> None:
    put(tmp_path / "me" / "NEXUS.md", "home")
    put(repo / "NEXUS.md", "repo")
    prompt = ContextLoader(repo / "pkg").load().system_prompt
    assert "repo" in prompt
    assert "\nhome" not in prompt


def test_the_home_folder_is_no_ancestor_even_as_a_repository_but_can_be_the_folder(
    config: Path, tmp_path: Path
) -> None:
    home = tmp_path / "me"
    (home / ".git").mkdir()
    put(home / "NEXUS.md", "home rules")
    (home / "notes").mkdir()
    assert "home rules" not in ContextLoader(home / "notes").load().system_prompt
    assert "home rules" in ContextLoader(home).load().system_prompt


def test_the_global_folder_as_working_folder_is_one_layer(config: Path) -> None:
    put(config / "NEXUS.md", "mine")
    loaded = ContextLoader(config).load()
    assert loaded.system_prompt.count("mine") == 1
    assert [layer.name for layer in loaded.sources.layers] == ["global"]


def test_without_a_global_file_the_packaged_one_is_the_global_layer(config: Path, repo: Path) -> None:
    loaded = ContextLoader(repo).load()
    assert loaded.sources.files == (defaults_dir() / "NEXUS.md",)
    assert loaded.system_prompt.startswith("# Global Configuration (built in)\n")


def test_an_untrusted_project_is_named_and_does_not_count(config: Path, repo: Path) -> None:
    put(config / "config.toml", 'model = "mine"')
    put(config / "mcp.json", servers(own="a"))
    settings = put(repo / ".nexus" / "config.toml", "this is [ not TOML")
    table = put(repo / "pkg" / ".nexus" / "mcp.json", servers(evil="b"))
    loaded = ContextLoader(repo / "pkg").load()
    assert loaded.config == {"model": "mine"}
    assert list(loaded.mcp_servers) == ["own"]
    assert loaded.sources.ignored == (settings, table)
    assert settings not in loaded.sources.files


def test_a_trusted_project_counts_and_the_later_layer_wins(config: Path, repo: Path) -> None:
    put(config / "config.toml", 'model = "a"\n[compact]\nat = 0.8\nto = 0.3')
    put(repo / ".nexus" / "config.toml", 'model = "b"\n[compact]\nat = 0.7')
    put(repo / "pkg" / ".nexus" / "config.toml", 'effort = "low"')
    put(config / "mcp.json", servers(x="global", y="global"))
    put(repo / ".nexus" / "mcp.json", servers(y="ancestor", z="ancestor"))
    put(repo / "pkg" / ".nexus" / "mcp.json", servers(z="local"))
    loaded = ContextLoader(repo / "pkg", trusted=True).load()
    assert loaded.config == {"model": "b", "compact": {"at": 0.7, "to": 0.3}, "effort": "low"}
    assert {name: server["command"] for name, server in loaded.mcp_servers.items()} == {
        "x": "global",
        "y": "ancestor",
        "z": "local",
    }
    assert loaded.sources.ignored == ()
    assert repo / "pkg" / ".nexus" / "mcp.json" in loaded.sources.files


def test_even_a_trusted_project_cannot_widen_what_is_permitted(config: Path, repo: Path) -> None:
    put(config / "config.toml", 'allow = "edit"\n[limits]\nmax_steps = 50\nmax_cost = 1.0')
    put(repo / ".nexus" / "config.toml", 'allow = "all"\n[limits]\nmax_steps = 900\nmax_cost = 0.5\ntimeout = 60')
    config_ = ContextLoader(repo, trusted=True).load().config
    assert config_ == {"allow": "edit", "limits": {"max_steps": 50, "max_cost": 0.5, "timeout": 60}}


numbers = st.dictionaries(st.sampled_from(["max_steps", "max_cost"]), st.integers(1, 9) | st.floats(0.1, 9))
tables = st.fixed_dictionaries({}, optional={"allow": st.sampled_from(LEVELS), "limits": numbers, "model": st.text()})


@given(tables, tables)
def test_what_a_project_sets_is_never_looser_than_what_the_person_set(mine: dict, project: dict) -> None:  # type: ignore[type-arg]
    result = tighten_settings(mine, merge(mine, project))
    assert LEVELS.index(result.get("allow", "ask")) <= LEVELS.index(mine.get("allow", "ask"))
    for key, value in mine.get("limits", {}).items():
        assert result["limits"][key] <= value
    assert result.get("model") == project.get("model", mine.get("model"))


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("mcp.json", "{not json", "line 1 column 2"),
        ("mcp.json", "[]", "must be an object"),
        ("mcp.json", '{"mcpServers": []}', '"mcpServers" must be an object'),
        ("mcp.json", '{"mcpServers": {"a": "b"}}', 'the server "a" must be an object'),
        ("mcp.json", '{"a":' * 100_000, "nested too deeply"),
        ("config.toml", "a = \nb = 1", "line 1"),
        ("config.toml", "a = " + "[" * 100_000, "nested too deeply"),
        ("config.toml", "a\0", "not a text file"),
    ],
)
def test_a_broken_file_is_named_with_the_place(config: Path, tmp_path: Path, name: str, text: str, why: str) -> None:
    path = put(config / name, text)
    with pytest.raises(NexusError) as caught:
        ContextLoader(tmp_path).load()
    assert (caught.value.kind, caught.value.what) == ("config", str(path))
    assert why in caught.value.why


def test_empty_settings_and_servers_are_none_at_all(config: Path, tmp_path: Path) -> None:
    put(config / "mcp.json", "")
    put(config / "config.toml", "\ufeff")
    loaded = ContextLoader(tmp_path).load()
    assert (loaded.config, loaded.mcp_servers) == ({}, {})


def test_instruction_layers_leave_out_what_is_blank_and_look_at_no_settings(config: Path, repo: Path) -> None:
    put(config / "config.toml", "broken [")
    put(config / "NEXUS.md", "G")
    put(repo / "pkg" / "NEXUS.md", "P")
    layers = instruction_layers(repo / "pkg" / "deep")
    assert [(layer.name, layer.text) for layer in layers] == [("global", "G"), ("ancestor", "P")]


def test_a_vanished_folder_leaves_the_global_layer(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(config / "NEXUS.md", "G")
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    loaded = ContextLoader().load(is_repl=False)
    assert loaded.system_prompt.startswith(f"# Global Configuration ({config})\nG\n\n# Environment\n")
    assert [layer.text for layer in instruction_layers(gone)] == ["G"]


def test_a_folder_reached_through_a_link_has_the_ancestors_of_its_target(
    config: Path, repo: Path, tmp_path: Path
) -> None:
    put(repo / "NEXUS.md", "R")
    (tmp_path / "short").symlink_to(repo / "pkg")
    assert "\nR\n" in ContextLoader(tmp_path / "short").load().system_prompt


@pytest.mark.parametrize("kind", ["file", "folder", "absolute"])
def test_instructions_that_lie_outside_the_project_are_left_out_and_named(
    config: Path, repo: Path, tmp_path: Path, kind: str
) -> None:
    put(tmp_path / "outside" / "secret.md", "SECRET")
    place = repo / "pkg" / "NEXUS.md"
    place.parent.mkdir(exist_ok=True)
    if kind == "folder":
        (repo / "docs").symlink_to(tmp_path / "outside")
        place.symlink_to("../docs/secret.md")
    else:
        target = tmp_path / "outside" / "secret.md"
        place.symlink_to(target if kind == "absolute" else os.path.relpath(target, place.parent))
    put(repo / "pkg" / "AGENTS.md", "AGENTS")
    for layers in (instruction_layers(repo / "pkg"), instruction_layers(repo / "pkg" / "deep")):
        [layer] = [one for one in layers if one.folder == repo / "pkg"]
        assert layer.text == "AGENTS" and f"{place} links to {tmp_path}" in layer.notice
        assert "outside the project; skipped" in layer.notice
    loaded = ContextLoader(repo / "pkg").load()
    assert "SECRET" not in loaded.system_prompt and place in loaded.sources.ignored


def test_links_inside_the_project_and_the_persons_own_count(config: Path, repo: Path, tmp_path: Path) -> None:
    put(repo / "docs" / "rules.md", "R")
    (repo / "NEXUS.md").symlink_to("docs/rules.md")
    put(tmp_path / "dotfiles.md", "D")
    config.mkdir(parents=True, exist_ok=True)
    (config / "NEXUS.md").symlink_to(tmp_path / "dotfiles.md")
    layers = instruction_layers(repo)
    assert [(layer.name, layer.text, layer.notice) for layer in layers] == [("global", "D", ""), ("local", "R", "")]


def test_a_fifo_among_the_layers_does_not_block(config: Path, repo: Path) -> None:
    os.mkfifo(repo / "NEXUS.md")
    os.mkfifo(config / "mcp.json")
    assert ContextLoader(repo, trusted=True).load().sources.local is None


@pytest.mark.parametrize(("kind", "named"), [("fifo", "a pipe"), ("link", "nowhere.md"), ("folder", "a folder")])
def test_what_is_no_file_is_named_and_the_next_one_counts(config: Path, repo: Path, kind: str, named: str) -> None:
    place = repo / "NEXUS.md"
    match kind:
        case "fifo":
            os.mkfifo(place)
        case "link":
            place.symlink_to("nowhere.md")
        case _:
            place.mkdir()
    layer = next(one for one in instruction_layers(repo) if one.name == "local")
    assert layer.text == "" and str(place) in layer.notice and named in layer.notice
    put(repo / "AGENTS.md", "Rules.")
    layer = next(one for one in instruction_layers(repo) if one.name == "local")
    assert layer.text == "Rules." and named in layer.notice
    assert ContextLoader(repo).load().notices == (layer.notice,)


FOREIGN = ("CLAUDE.md", ".cursorrules", ".github/copilot-instructions.md")


@pytest.mark.parametrize("name", FOREIGN)
def test_a_session_reads_the_instructions_for_other_agents_where_there_are_none_for_us_and_names_them(
    config: Path, repo: Path, name: str
) -> None:
    put(repo / "pkg" / "NEXUS.md", "ours")
    put(repo / "pkg" / "CLAUDE.md", "not read beside ours")
    put(repo / name, "\ntheirs\n")
    layers = {layer.folder: layer for layer in instruction_layers(repo / "pkg") if layer.name != "global"}
    assert {folder: layer.text for folder, layer in layers.items()} == {repo: "theirs", repo / "pkg": "ours"}
    assert layers[repo].path == repo / name and layers[repo].header == f"# Ancestor Configuration ({repo})"
    assert name in layers[repo].notice and str(repo) in layers[repo].notice and not layers[repo / "pkg"].notice
    assert "theirs" not in ContextLoader(repo / "pkg").load().system_prompt, "the public loader has its own list"


def test_of_several_foreign_files_the_first_with_text_is_read_and_a_blank_file_of_ours_is_enough_for_none(
    config: Path, repo: Path
) -> None:
    put(repo / "CLAUDE.md", " \n")
    put(repo / ".cursorrules", "second")
    put(repo / ".github" / "copilot-instructions.md", "third")
    assert [layer.text for layer in instruction_layers(repo) if layer.name == "local"] == ["second"]
    put(repo / "AGENTS.md", "")
    assert [layer for layer in instruction_layers(repo) if layer.name == "local"] == []


def test_a_foreign_file_that_leads_out_of_the_project_is_left_out(config: Path, repo: Path, tmp_path: Path) -> None:
    put(tmp_path / "elsewhere.md", "no")
    (repo / "CLAUDE.md").symlink_to(tmp_path / "elsewhere.md")
    (found,) = (layer for layer in instruction_layers(repo) if layer.name == "local")
    assert found.text == "" and "outside the project" in found.notice
