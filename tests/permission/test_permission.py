"""What asks and what runs by itself (`nexus docs rules`), judged by where paths lead."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from project_files import write_files
from search import sample

from nexus_cli.config.paths import places
from nexus_cli.config.protected_places import SecretPlaces
from nexus_cli.core.limits import LEVELS
from nexus_cli.core.tool import Tool
from nexus_cli.permission.call_decision import CallDecision
from nexus_cli.permission.permission import decide, resolve_targets
from nexus_cli.tools.files import ToolError
from nexus_cli.tools.registry import discover_tools

TOOLS = discover_tools()
READ, WRITE, BASH, RECALL, GREP = (TOOLS[n] for n in ("read_file", "write_file", "bash", "recall", "grep"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a link out of it, a link to a folder in it, and a neighbour."""
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "a.txt").write_text("a")
    outside = tmp_path / "outside"
    write_files(outside, {"secret": "s"})
    (root / "out").symlink_to(outside)
    (root / "leak").symlink_to(outside / "secret")
    (root / "dangling").symlink_to(outside / "new")
    (root / "in").symlink_to(root / "src")
    (root / "hooks").symlink_to(root / ".git")
    (tmp_path / "project-two").mkdir()
    return root


def _asks(verdict: CallDecision, kind: str) -> bool:
    return verdict.asks and verdict.kind == kind


def _decide(project: Path, tool: str, path: str, allow: str) -> CallDecision:
    arguments = {"path": path, "content": "", "edits": [], "pattern": "x"}
    return decide(TOOLS[tool], arguments, allow=allow, cwd=project, project=project)


def _reader(schema: object) -> Tool:
    parameters = {"type": "object", "properties": {"where": schema}, "required": []}
    return replace(READ, name="made_up", parameters=parameters, paths=("where",), subject="where")


@pytest.mark.parametrize("given", [{"path": "/etc/passwd"}, [{"path": "a"}], ["a", {"path": "b"}], [["a"]], 1, None])
def test_a_path_that_is_no_string_is_refused(project: Path, given: object) -> None:
    tool = _reader({"type": ["array", "object", "integer", "null"]})
    with pytest.raises(ToolError, match="string"):
        resolve_targets(tool, {"where": given}, project)
    verdict = decide(tool, {"where": given}, allow="edit", cwd=project, project=project)
    assert _asks(verdict, "protected") and "string" in str(verdict)


@pytest.mark.parametrize("default", ["/etc/passwd", ["a.txt", "../x"]])
def test_a_path_that_is_left_out_is_the_default_of_the_schema(project: Path, default: object) -> None:
    tool = _reader({"type": "string", "default": default})
    assert _asks(decide(tool, {}, allow="ask", cwd=project, project=project), "outside")
    assert decide(tool, {"where": "a.txt"}, allow="ask", cwd=project, project=project).is_granted
    for schema in ({"type": "string"}, {"default": None}, True):
        assert list(resolve_targets(_reader(schema), {}, project)) == ["."]


@pytest.mark.parametrize("allow", ["ask", "edit"])
@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../x",
        "/etc/passwd",
        "~/x",
        "out/secret",
        "leak",
        "src/../../x",
        "out/new/x",
        "../project-two/a",
        "in/../../x",
        "dangling",
    ],
)
def test_outside_the_project_is_asked_about(project: Path, path: str, allow: str) -> None:
    assert _asks(_decide(project, "read_file", path, allow), "outside")
    assert _asks(_decide(project, "write_file", path, allow), "outside")
    assert _asks(_decide(project, "grep", path, allow), "outside")


@pytest.mark.matrix
@pytest.mark.parametrize("path", ["a.txt", "src/new/deep.py", ".", "in/x", "./src/../a.txt", "..x", ".git/config"])
def test_reading_inside_the_project_runs(project: Path, path: str) -> None:
    assert _decide(project, "read_file", path, "ask").is_granted
    assert _decide(project, "read_file", str(project / path), "ask").is_granted


@pytest.mark.matrix
@pytest.mark.parametrize("path", ["a.txt", "src/new/deep.py", "in/x", ".gitignore", ".github/x.yml", "notes.md"])
def test_edits_inside_the_project_run_from_the_level_edit(project: Path, path: str) -> None:
    assert _asks(_decide(project, "edit_file", path, "ask"), "edit")
    assert _decide(project, "edit_file", path, "edit").is_granted


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".GIT/hooks/pre-commit",
        "sub/.git/config",
        ".git",
        "hooks/x",
        ".nexus/config.toml",
        "src/.Nexus/x",
        "NEXUS.md",
        "nexus.MD",
        "src/AGENTS.md",
        "SOUL.md",
        "IDENTITY.md",
        "AGENT.md",
        "PREFERENCES.md",
        "CLAUDE.md",
        ".bashrc",
        "home/.zshrc",
        ".profile",
        ".envrc",
        ".g\u200cit/config",
        ".git./config",
        "src/../.git/x",
    ],
)
def test_protected_places_are_asked_about_when_written(project: Path, path: str) -> None:
    for allow in ("ask", "edit"):
        assert _asks(_decide(project, "write_file", path, allow), "protected")
    assert _decide(project, "write_file", path, "all").is_granted


@pytest.mark.parametrize(
    "path",
    sample(
        [
            ".hg/hgrc",
            "sub/.hg/hgrc",
            ".HG/hgrc",
            ".jj/repo/config.toml",
            ".pre-commit-config.yaml",
            "lefthook.yml",
            ".githooks/pre-push",
            ".lintstagedrc.json",
            ".npmrc",
            ".yarnrc.yml",
            ".yarn/releases/yarn.cjs",
            ".pnpmfile.cjs",
            "bunfig.toml",
            ".pypirc",
            ".cargo/config.toml",
            ".cargo/config",
            ".bundle/config",
            ".mvn/jvm.config",
            ".bazelrc",
            "tools/bazel",
            "mise.toml",
            ".mise.toml",
            ".config/mise/config.toml",
            ".tool-versions",
            ".gdbinit",
            ".lldbinit",
            ".pdbrc",
            "src/sitecustomize.py",
            ".irbrc",
            ".Rprofile",
            ".ghci",
            ".vim/vimrc",
            ".nvim/init.lua",
            ".lvimrc",
            ".helix/languages.toml",
            ".fleet/run.json",
            ".zed/tasks.json",
            "app.code-workspace",
            "x.sublime-project",
            ".devcontainer.json",
            ".github/workflows/ci.yml",
            ".GitHub/Workflows/ci.yml",
            ".github/actions/x/action.yml",
            ".gitlab-ci.yml",
            ".circleci/config.yml",
            ".buildkite/pipeline.yml",
            "Jenkinsfile",
            ".travis.yml",
            ".forgejo/workflows/x.yml",
            ".config/autostart/x.desktop",
            ".config/systemd/user/x.service",
            ".local/bin/git",
            "Library/LaunchAgents/x.plist",
        ],
        4,
    ),
)
def test_what_other_programs_obey_by_themselves_is_asked_about_when_edited(project: Path, path: str) -> None:
    for tool in ("write_file", "edit_file"):
        for allow in ("ask", "edit", "auto"):
            assert _asks(_decide(project, tool, path, allow), "protected")
        assert _decide(project, tool, path, "all").is_granted
    assert _decide(project, "read_file", path, "ask").is_granted


@pytest.mark.matrix
@pytest.mark.parametrize(
    "path",
    [
        "Makefile",
        "package.json",
        "conftest.py",
        "setup.py",
        "pyproject.toml",
        "Cargo.toml",
        "build.rs",
        "tox.ini",
        ".github/dependabot.yml",
        ".github/CODEOWNERS",
        ".gitignore",
        ".gitattributes",
        ".editorconfig",
        ".dockerignore",
        "Dockerfile",
        ".eslintrc.js",
        ".prettierrc",
        ".env.example",
        ".python-version",
        "head.txt",
        "src/header.h",
        "workflows/ci.yml",
        "config/mise.py",
        "bin/x",
        "tools/x",
    ],
)
def test_ordinary_files_of_a_project_are_edited_unasked(project: Path, path: str) -> None:
    assert _decide(project, "write_file", path, "edit").is_granted


def test_a_repository_without_a_git_folder_is_not_written_unasked(project: Path) -> None:
    for name in ("g/HEAD", "g/head", "HEAD"):
        assert _asks(_decide(project, "write_file", name, "edit"), "protected")
    for name in ("g/config", "g/refs/x", "g/objects/info/alternates"):
        assert _decide(project, "write_file", name, "edit").is_granted
    write_files(project, {"g/HEAD": "ref: refs/heads/main"})
    for name in ("g/config", "g/refs/x", "g/objects/info/alternates", "g/hooks/pre-commit"):
        assert _asks(_decide(project, "edit_file", name, "edit"), "protected")
    assert _decide(project, "edit_file", "src/x", "edit").is_granted


def test_a_link_to_a_protected_file_is_protected(project: Path) -> None:
    (project / "NEXUS.md").write_text("x")
    (project / "innocent.txt").symlink_to(project / "NEXUS.md")
    assert _asks(_decide(project, "write_file", "innocent.txt", "edit"), "protected")
    (project / "AGENTS.md").symlink_to(project / "a.txt")
    assert _asks(_decide(project, "write_file", "AGENTS.md", "edit"), "protected")


def test_the_configuration_of_nexus_is_protected_inside_a_project_too(project: Path) -> None:
    arguments = {"path": "conf/config.toml", "content": ""}
    verdict = decide(WRITE, arguments, allow="edit", cwd=project, project=project, config_dirs=[project / "conf"])
    assert _asks(verdict, "protected")


@pytest.mark.matrix
@pytest.mark.parametrize("tool", sample([READ, GREP, WRITE], 3), ids=lambda tool: tool.name)
def test_nexus_own_files_are_refused_in_a_project_that_is_the_home_of_the_person(
    project: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    monkeypatch.setenv("NEXUS_HOME", str(project / "home"))
    (project / "link").symlink_to(project / "home")
    (project / "home").mkdir()
    own = ("data", "data/keys/A_KEY", "DATA/ledger.db", "log/nexus.log", "config/config.toml", "config/mcp.json")
    for path in (f"{top}/{name}" for top in ("home", "link") for name in own):
        verdicts = _verdicts(project, tool, path)
        assert all(one.is_denied and "nexus's own files" in one.why for one in verdicts[:-1]), path
        assert verdicts[-1].is_granted
    for path in ("home/config/skills/x/run.py", "home/config/NEXUS.md", "home/cache/x", "home/data.d/x"):
        assert not any(one.is_denied for one in _verdicts(project, tool, path)), path


def _verdicts(project: Path, tool: Tool, path: str) -> list[CallDecision]:
    """Return the verdict of every level, the lowest first."""
    arguments = {"path": path, "pattern": "x", "content": "", "edits": []}
    return [decide(tool, arguments, allow=level, cwd=project, project=project) for level in LEVELS]


@pytest.mark.matrix
@pytest.mark.parametrize("tool", [READ, GREP, WRITE, TOOLS["glob"], TOOLS["edit_file"]], ids=lambda tool: tool.name)
@pytest.mark.parametrize(
    "path",
    sample(
        [
            "~/.ssh/id_rsa",
            "~/.SSH/id_rsa",
            "~/.aws",
            "~/.config/gh/hosts.yml",
            "~/x/../.netrc",
            "key",
            "real/id",
            "~/.mozilla/firefox/a.default/cookies.sqlite",
        ],
        4,
    ),
)
def test_credentials_are_refused_at_every_level_but_all(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, tool: Tool
) -> None:
    home = tmp_path / "home"
    write_files(home, {".ssh/id_rsa": "x"})
    monkeypatch.setenv("HOME", str(home))
    (project / "key").symlink_to(home / ".ssh" / "id_rsa")
    (project / "real").mkdir()
    (home / ".gnupg").symlink_to(project / "real")  # a person may keep them in a repository
    *low, top = _verdicts(project, tool, path)
    assert all(one.is_denied for one in low) and top.is_granted
    verdict = low[0]
    assert verdict.is_denied and f'allow = ["{tool.name}(' in verdict.why and "\n" not in verdict.why


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("tool", "root"),
    [(READ, "project"), (GREP, "project"), (WRITE, "/"), (TOOLS["glob"], "/proc")],
    ids=lambda given: getattr(given, "name", given),
)
@pytest.mark.parametrize(
    "path",
    sample(
        [
            "/proc/self/environ",
            "/proc/thread-self/environ",
            "/proc/1/environ",
            "/proc/self/task/1/mem",
            "/proc/self",
            "/proc/4711/cwd/x",
            "/proc/1/task",
            "link/environ",
            "/PROC/Self/environ",
            "/proc/self/fd",
        ],
        4,
    ),
)
def test_what_proc_shows_of_a_process_is_refused_in_every_project(
    project: Path, path: str, root: str, tool: Tool
) -> None:
    """The environment of a process holds keys, that of nexus those of the person."""
    (project / "link").symlink_to("/proc/self")
    top = Path(root) if root[0] == "/" else project
    arguments = {"path": path.replace("link", str(project / "link")), "pattern": "x", "content": ""}
    verdicts = [decide(tool, arguments, allow=level, cwd=project, project=top) for level in LEVELS[:-1]]
    assert all(one.is_denied for one in verdicts), verdicts
    assert SecretPlaces(places(), top).are_below(Path("/proc"))
    assert not SecretPlaces(places(), top).find(Path("/proc/cpuinfo"))


def test_a_personal_rule_for_a_credential_lifts_the_refusal_alone(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project.parent))
    for lifted in (True, False):
        verdict = decide(
            READ, {"path": "~/.netrc"}, allow="edit", cwd=project, project=project, lifts=partial(bool, lifted)
        )
        assert verdict.is_denied != lifted
        assert not lifted or _asks(verdict, "outside"), "the rule lifts the refusal, not the question"


def test_the_question_names_where_a_link_leads(project: Path) -> None:
    verdict = _decide(project, "read_file", "leak", "ask")
    assert verdict.asks
    assert verdict.why == f"the call reads outside the project: leak -> {project.parent / 'outside' / 'secret'}"


def test_what_was_resolved_before_is_what_is_judged(project: Path) -> None:
    where = {"cwd": project, "project": project, "allow": "ask"}
    inside, outside = project / "a.txt", project.parent / "outside" / "secret"
    assert decide(READ, {"path": "leak"}, targets={"leak": inside}, **where).is_granted  # type: ignore[arg-type]
    assert _asks(decide(READ, {"path": "a.txt"}, targets={"a.txt": outside}, **where), "outside")  # type: ignore[arg-type]


def test_commands_ask_until_the_level_all_and_recall_never_does(project: Path) -> None:
    for allow in ("ask", "edit"):
        assert _asks(decide(BASH, {"command": "ls"}, allow=allow, cwd=project, project=project), "run")
    assert decide(BASH, {"command": "ls"}, allow="all", cwd=project, project=project).is_granted
    assert decide(RECALL, {"id": "d1"}, allow="ask", cwd=project, project=project).is_granted


def test_a_path_is_relative_to_the_working_folder_and_judged_by_the_project(project: Path) -> None:
    inside = decide(READ, {"path": "../a.txt"}, allow="ask", cwd=project / "src", project=project)
    assert inside.is_granted
    assert decide(GREP, {"pattern": "x"}, allow="ask", cwd=project / "src", project=project).is_granted
    assert _asks(decide(GREP, {"pattern": "x"}, allow="ask", cwd=project.parent, project=project), "outside")


def test_a_project_reached_through_a_link_is_the_same_project(project: Path, tmp_path: Path) -> None:
    door = tmp_path / "door"
    door.symlink_to(project)
    assert decide(READ, {"path": "a.txt"}, allow="ask", cwd=door, project=door).is_granted
    assert decide(READ, {"path": str(project / "a.txt")}, allow="ask", cwd=door, project=door).is_granted


@pytest.mark.parametrize("path", ["", "\0", "a\0b"])
def test_what_is_no_path_is_never_granted_below_all(project: Path, path: str) -> None:
    assert _decide(project, "read_file", path, "edit").asks


def test_the_reason_is_one_line(project: Path) -> None:
    verdict = _decide(project, "read_file", "../a\nb\rc", "ask")
    assert verdict.asks
    assert "\n" not in verdict.why and "\r" not in verdict.why


def test_an_unknown_level_is_an_error(project: Path) -> None:
    with pytest.raises(ValueError):
        _decide(project, "read_file", "a", "everything")


pieces = st.sampled_from(["..", ".", "src", "out", "in", ".git", "NEXUS.md", "a.txt", "~", "", "hooks", ".Bashrc", "x"])
paths = st.lists(pieces, min_size=1, max_size=5).map("/".join)


@given(st.sampled_from(sorted(TOOLS)), paths)
def test_more_is_never_less(tool: str, path: str) -> None:
    project = Path(os.path.realpath(os.curdir))
    verdicts = [
        decide(
            TOOLS[tool],
            {"path": path, "command": "ls", "id": "d1", "pattern": "x", "content": "", "edits": []},
            allow=level,
            cwd=project,
            project=project,
        ).is_granted
        for level in LEVELS
    ]
    assert verdicts == sorted(verdicts)
    assert verdicts[-1]
