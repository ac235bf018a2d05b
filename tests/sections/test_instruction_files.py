"""Imports of instruction files, and rules by path: what is read, what is named, what is neither."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from nexus_cli.config.foreign_items import KINDS
from nexus_cli.config.paths import places
from nexus_cli.config.trust import read_configuration, trust
from nexus_cli.context.loader import ContextLayer
from nexus_cli.sections.instruction_files import (
    DEEPEST,
    MOST,
    MOST_LOOKED_FOR,
    find_imports,
    instruction_layers,
    layers_below,
)
from nexus_cli.sections.path_rules import drop_comments, list_path_rules
from nexus_cli.session.section_sources import _real_paths


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    (folder / ".git").mkdir(parents=True)
    return folder


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def project(folder: Path) -> list[ContextLayer]:
    return [layer for layer in instruction_layers(folder) if layer.name != "global"]


def parts(folder: Path) -> list[str]:
    return [layer.part for layer in project(folder) if layer.part]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("See @docs/a.md, @./b.md; (@c.md) and *@d.md*.", ["docs/a.md", "./b.md", "c.md", "d.md"]),
        ("@a\\ b.md @e.md#part", ["a b.md", "e.md"]),
        ("mail me@x.md or `@a.md` or ``x ` @a.md`` <!-- @a.md -->", []),
        ("```\n@a.md\n```\n@b.md", ["b.md"]),
        ("~~~~\n@a.md\n~~~\n@a.md\n~~~~\n@b.md\n```py\n@c.md", ["b.md"]),
        ("- one\n  ```sh\n  @a.md\n  ```\n  @b.md", ["b.md"]),
        ("<!-- of\n@a.md\n\n@a.md -->\n```\n<!--\n```\n@b.md\n-->", ["b.md"]),
        ("an odd ` backtick and @a.md", ["a.md"]),
        ("@ @@ @. @,", []),
    ],
)
def test_imports_count_outside_of_code(text: str, found: list[str]) -> None:
    assert [path for _, path in find_imports(text)] == found


def test_claude_s_files_are_sent_without_comments_and_others_whole(repo: Path) -> None:
    inner = "in <!-- line -->\n```\n<!-- code -->\n```\n{}  - <!-- item -->\n<!-- open"
    text, kept = "<!-- a\n\nb --> tail\n" + inner.format("<!-- c -->\n"), "tail\n" + inner.format("")
    put(repo / "AGENTS.md", f"AGENTS\n{text}")
    put(repo / "CLAUDE.md", f"CLAUDE\n{text}")
    put(repo / "CLAUDE.local.md", "<!-- only a comment -->\n@docs/more.md")
    put(repo / "docs/more.md", f"MORE\n{text}")
    put(repo / ".claude/rules/all.md", f"ALL\n{text}")
    put(repo / ".claude/rules/c.md", f"---\npaths: '*.c'\n---\nC\n{text}")
    assert [layer.text for layer in project(repo)] == [
        f"AGENTS\n{text}",
        f"CLAUDE\n{kept}",
        f"MORE\n{kept}",
        f"ALL\n{kept}",
    ]
    assert [rule.text for rule in list_path_rules(repo) if rule.globs] == [f"C\n{kept}"]
    put(repo / "a/NEXUS.md", f"NEXUS\n{text}")
    assert project(repo / "a")[-1].text == f"NEXUS\n{text}"
    (repo / "b").mkdir()
    (repo / "b/CLAUDE.md").symlink_to("../AGENTS.md")
    assert project(repo / "b")[-1].text == f"AGENTS\n{kept}", "Claude Code reads it by the name CLAUDE.md"
    put(repo / "CLAUDE.md", "<!-- two\nlines -->\n\n@gone.md")
    assert "@gone.md (line 4) is not there" in project(repo)[1].notice


def test_an_indented_comment_is_sent_in_a_list_a_paragraph_and_code(repo: Path) -> None:
    apart = "   <!-- a\n\nb -->\n# Title\n <!-- c --> tail\n\nText.\n\n  <!-- d -->\n"
    inside = "Text\n <!-- e -->\n\n    <!-- f -->\n\n- g\n\n  <!-- h -->\n\n1. i\n <!-- j -->\n\t<!-- k -->\n"
    put(repo / "CLAUDE.md", f"{apart}{inside}")
    assert project(repo)[0].text == f"# Title\ntail\n\nText.\n\n{inside}".strip()
    many = "Text.\n\n" + " <!---->\n" * 50_000
    assert drop_comments(many).count("<!---->") == 49_999


def test_a_long_line_of_fences_is_read_at_once() -> None:
    assert [*find_imports(f"{'~' * 200_000}`\n@a.md")] == [(2, "a.md")]


def test_imports_follow_their_file_and_are_relative_to_the_file_that_names_them(repo: Path) -> None:
    put(repo / "AGENTS.md", "@docs/a.md")
    put(repo / "docs/a.md", "A @b.md")
    put(repo / "docs/b.md", "B")
    put(repo / "pkg/NEXUS.md", "@../docs/b.md @local.md")
    put(repo / "pkg/local.md", "L")
    assert [(one.part, one.text, one.notice) for one in project(repo / "pkg")] == [
        ("", "@docs/a.md", ""),
        ("docs/a.md", "A @b.md", ""),
        ("docs/b.md", "B", ""),
        ("", "@../docs/b.md @local.md", ""),
        ("local.md", "L", ""),
    ]


def test_claude_s_files_count_beside_the_instruction_file_unless_that_is_ours(repo: Path) -> None:
    put(repo / "AGENTS.md", "Ours to all.")
    put(repo / "CLAUDE.md", "For Claude: @docs/more.md")
    put(repo / "docs/more.md", "More.")
    put(repo / ".claude/CLAUDE.md", "Inside.")
    put(repo / "CLAUDE.local.md", "Local.")
    assert parts(repo) == ["CLAUDE.md", "docs/more.md", ".claude/CLAUDE.md", "CLAUDE.local.md"]
    assert project(repo)[0].text == "Ours to all."
    (repo / "AGENTS.md").unlink()
    assert [layer.path and layer.path.name for layer in project(repo) if not layer.part] == ["CLAUDE.md"]
    assert parts(repo) == ["docs/more.md", ".claude/CLAUDE.md", "CLAUDE.local.md"]
    put(repo / "NEXUS.md", "Ours.")
    assert [layer.text for layer in project(repo)] == ["Ours."]


@pytest.mark.parametrize("form", ["link", "import", "copy", "imported"])
def test_an_instruction_file_under_two_names_counts_once(repo: Path, form: str) -> None:
    text = "Tabs, never blanks.\n"
    put(repo / "AGENTS.md", "@CLAUDE.md\n" if form == "imported" else text)
    if form == "link":
        (repo / "CLAUDE.md").symlink_to("AGENTS.md")
    else:
        put(repo / "CLAUDE.md", "@AGENTS.md\n" if form == "import" else text)
    assert [layer.text for layer in project(repo)].count(text.strip()) == 1
    assert len(project(repo)) == (2 if form == "imported" else 1)


def test_a_local_file_of_a_folder_below_comes_with_its_files(repo: Path) -> None:
    put(repo / "api/CLAUDE.local.md", "Local to api.")
    file = put(repo / "api/a.py", "")
    assert [layer.text for layer in layers_below(repo, [str(file.resolve())], list)] == ["Local to api."]


def test_the_person_s_rules_count_in_every_project(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    put(home / ".claude/rules/always.md", "Always mine.")
    put(home / ".claude/rules/api.md", "---\npaths: src/**\n---\nMine for src.")
    put(repo / ".claude/rules/theirs.md", "Theirs.")
    texts = [(layer.name, layer.text) for layer in instruction_layers(repo) if layer.part]
    assert texts == [("global", "Always mine."), ("local", "Theirs.")]
    (rule,) = [rule for rule in list_path_rules(repo) if rule.globs]
    assert rule.names(f"{repo.resolve()}/src/a.py") and not rule.names(f"{repo.resolve()}/docs/a.md")
    assert rule.name == str(home / ".claude/rules/api.md")
    monkeypatch.setenv("HOME", str(repo))
    assert [layer.text for layer in instruction_layers(repo) if layer.part] == ["Theirs."]


def test_a_person_s_rules_may_lie_elsewhere_behind_a_link(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, kept = tmp_path / "home", put(tmp_path / "dotfiles/always.md", "Always mine.").parent
    monkeypatch.setenv("HOME", str(home))
    (home / ".claude").mkdir(parents=True)
    (home / ".claude/rules").symlink_to(kept)
    assert [(layer.text, layer.notice) for layer in instruction_layers(repo) if layer.part] == [("Always mine.", "")]


def test_four_files_deep_is_the_end_and_a_circle_is_named_once(repo: Path) -> None:
    put(repo / "NEXUS.md", "@1.md")
    for number in range(1, 9):
        put(repo / f"{number}.md", f"@{number + 1}.md")
    found = project(repo)
    assert parts(repo) == [f"{number}.md" for number in range(1, DEEPEST + 1)]
    assert [one.notice for one in found if one.notice] == [
        f"{repo}/4.md has imports that were not read: @5.md (line 1) is nested more than 4 files deep"
    ]
    put(repo / "2.md", "@NEXUS.md @1.md @2.md")
    notices = [one.notice for one in project(repo) if one.notice]
    assert len(notices) == 1 and notices[0].count("is a circular import") == 3, notices


def test_what_is_no_file_is_named_only_if_it_can_be_meant_as_one(repo: Path) -> None:
    (repo / "src").mkdir()
    os.mkfifo(repo / "pipe.md")
    (repo / "binary.md").write_bytes(b"a\0b")
    put(repo / "NEXUS.md", "@alice @types/node @src @gone.md @./gone @pipe.md @binary.md")
    [found] = project(repo)
    assert found.text and "alice" not in found.notice and "node" not in found.notice and "src" not in found.notice
    for name in ("@gone.md", "@./gone", "@pipe.md"):
        assert f"{name} (line 1) is not there" in found.notice
    assert "@binary.md (line 1) is not a text file" in found.notice


def test_a_project_imports_from_itself_alone_and_no_credentials(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "secret.md", "SECRET")
    (repo / "link.md").symlink_to(tmp_path / "secret.md")
    (repo / "docs").symlink_to(tmp_path)
    put(repo / "NEXUS.md", f"@../secret.md @link.md @docs/secret.md @{tmp_path}/secret.md @key.json")
    put(repo / "key.json", "KEY")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(repo / "key.json"))
    found = project(repo)
    assert parts(repo) == [] and found[0].notice.count("outside the project") == 4, found
    assert "@key.json (line 1) holds credentials" in found[0].notice


def test_personal_instructions_import_from_anywhere(repo: Path, tmp_path: Path) -> None:
    put(places().config / "NEXUS.md", f"@own.md @{tmp_path}/else.md")
    put(places().config / "own.md", "OWN")
    put(tmp_path / "else.md", "ELSE")
    found = [one for one in instruction_layers(repo) if one.name == "global"]
    assert [one.text for one in found[1:]] == ["OWN", "ELSE"] and not any(one.notice for one in found)


def test_the_number_of_imports_and_the_bytes_of_one_are_bounded(repo: Path) -> None:
    for number in range(MOST + 3):
        put(repo / f"d/{number}.md", str(number))
    put(repo / "NEXUS.md", "\n".join(f"@d/{number}.md" for number in range(MOST + 3)))
    assert len(parts(repo)) == MOST and f"limit of {MOST} files" in project(repo)[0].notice
    put(repo / "NEXUS.md", "@d/0.md")
    put(repo / "d/0.md", "x" * 2_000_000)
    assert project(repo)[1].beyond == 2_000_000 - 1024 * 1024


def test_what_a_deny_rule_names_is_not_imported_and_no_link_leads_to_it(repo: Path) -> None:
    put(repo / "secrets/a.md", "SECRET")
    put(repo / ".claude/rules/plain.md", "PLAIN")
    (repo / ".claude/rules/always.md").symlink_to(put(repo / "secrets/rule.md", "SECRET"))
    (repo / "link.md").symlink_to("secrets/a.md")
    put(repo / "NEXUS.md", "@secrets/a.md @link.md @./.claude/../secrets/a.md")
    (repo / "pkg").mkdir()
    (repo / "pkg/NEXUS.md").symlink_to(put(repo / "secrets/own.md", "SECRET"))
    found = instruction_layers(repo / "pkg", lambda path: "secrets" in path.parts)
    assert not any("SECRET" in one.text for one in found) and any(one.text == "PLAIN" for one in found)
    told = "; ".join(one.notice for one in found)
    for name in (
        "@secrets/a.md (line 1) is denied by a rule for read_file",
        f"@link.md (line 1) links to {repo}/secrets/a.md, denied by",
    ):
        assert name in told
    for link, file in (("pkg/NEXUS.md", "own.md"), (".claude/rules/always.md", "rule.md")):
        assert f"{repo}/{link} links to {repo}/secrets/{file}, denied by a rule for read_file" in told
    assert [one.text for one in instruction_layers(repo)].count("SECRET") == 2


def test_a_rule_that_links_to_credentials_is_left_out(repo: Path) -> None:
    put(repo / ".env", "KEY=1")
    put(repo / ".claude/rules/a.md", "A")
    (repo / ".claude/rules/env.md").symlink_to(repo / ".env")
    (repo / ".claude/rules/same.md").symlink_to("a.md")
    found = {one.name: one for one in list_path_rules(repo)}
    assert (
        found[".claude/rules/env.md"].text == "" and "which holds credentials" in found[".claude/rules/env.md"].notice
    )
    assert found[".claude/rules/same.md"].text == "A"


def test_names_that_are_looked_for_on_disk_are_bounded_over_all_files(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(repo / "a.md", "\n".join(f"@x{number}" for number in range(MOST_LOOKED_FOR)))
    put(repo / "b.md", "@c.md")
    put(repo / "c.md", "C")
    put(repo / "NEXUS.md", "@a.md\n@b.md")
    looked, real = list[str](), os.path.isfile

    def isfile(path: str) -> bool:
        looked.append(path)
        return real(path)

    monkeypatch.setattr(os.path, "isfile", isfile)
    found = project(repo)
    assert len(looked) < MOST_LOOKED_FOR + 50 and parts(repo) == ["a.md"]
    notices = [one.notice for one in found if one.notice]
    assert any(f"all from line {MOST_LOOKED_FOR} on (limit of {MOST_LOOKED_FOR:,}" in one for one in notices)
    assert any("all from line 2 on" in one for one in notices), notices


@pytest.mark.parametrize(
    ("globs", "path", "is_named"),
    [
        ("src/**/*.ts", "src/a.ts", True),
        ("src/**/*.ts", "src/x/y/a.ts", True),
        ("src/**/*.ts", "lib/a.ts", False),
        ("**/*.{ts,tsx}", "a/b.tsx", True),
        ("{src,lib}/**/*.{ts,tsx}, docs/*.md", "lib/a.ts", True),
        ("{src,lib}/**/*.{ts,tsx}, docs/*.md", "docs/a.md", True),
        ("*.md", "README.md", True),
        ("*.md", "docs/README.md", False),
        ("src/api", "src/api/x/a.py", True),
        ("src/api/", "src/apis/a.py", False),
        ("./src/?.py", "src/a.py", True),
        ("src/**", "src/deep/a.py", True),
        ("[", "[", True),
        ("a{b", "a{b", True),
    ],
)
def test_globs_name_files_below_the_folder_of_the_rules(repo: Path, globs: str, path: str, is_named: bool) -> None:
    put(repo / ".claude/rules/r.md", f'---\npaths: "{globs}"\n---\nR\n')
    [rule] = list_path_rules(repo)
    assert rule.names(str(repo / path)) is is_named and not rule.names(str(repo.parent / path))


@pytest.mark.parametrize("front", ["paths:\n  - **/*.py\n  - docs/*.md", "paths: **/*.py", 'paths: ["**/*.py"]'])
def test_front_matter_is_read_as_others_write_it(repo: Path, front: str) -> None:
    put(repo / ".claude/rules/deep/r.md", f"---\n{front}\n---\nR\n")
    [rule] = list_path_rules(repo)
    assert rule.names(str(repo / "src/a.py")) and not rule.notice and rule.text == "R"


def test_a_list_of_paths_that_is_not_closed_is_named_and_its_rule_counts(repo: Path) -> None:
    put(repo / ".claude/rules/one.md", "---\npaths: [src/**\n---\nBe strict.\n")
    (rule,) = list_path_rules(repo)
    assert rule.globs == () and rule.text == "Be strict." and "one.md has an unclosed list in `paths`" in rule.notice


def test_a_folder_of_rules_that_leads_out_of_the_project_is_named_and_not_listed(repo: Path, tmp_path: Path) -> None:
    put(tmp_path / "elsewhere/secret-name.md", "SECRET")
    (repo / ".claude").mkdir(exist_ok=True)
    (repo / ".claude/rules").symlink_to(tmp_path / "elsewhere")
    [rule] = list_path_rules(repo)
    assert rule.text == "" and "outside the project; skipped" in rule.notice
    assert "secret-name" not in str(rule)


def test_a_folder_of_rules_elsewhere_in_the_project_counts(repo: Path) -> None:
    put(repo / "shared/deep/a.md", "A")
    (repo / ".claude").mkdir(exist_ok=True)
    (repo / ".claude/rules").symlink_to(repo / "shared")
    assert [(rule.name, rule.text) for rule in list_path_rules(repo)] == [(".claude/rules/deep/a.md", "A")]


def test_rules_without_paths_always_count_once_and_links_out_of_the_project_never(repo: Path, tmp_path: Path) -> None:
    put(repo / ".claude/rules/a.md", "A")
    put(repo / ".claude/rules/b.md", "---\npaths: x\nB")
    put(tmp_path / "secret.md", "SECRET")
    (repo / ".claude/rules/c.md").symlink_to(tmp_path / "secret.md")
    put(repo / "NEXUS.md", "@.claude/rules/a.md")
    found = project(repo)
    assert [one.text for one in found] == ["@.claude/rules/a.md", "A", "---\npaths: x\nB", ""], found
    assert "without a closing ---" in found[2].notice and "outside the project" in found[3].notice


def test_a_hostile_glob_takes_no_time(repo: Path) -> None:
    hostile = "**/" * 40 + "*a*a*a*a*a*a*a*a*b" + "{a,b}" * 30
    put(repo / ".claude/rules/r.md", f'---\npaths: "{hostile}"\n---\nR\n')
    [rule] = list_path_rules(repo)
    assert not rule.names(str(repo / ("a" * 200 + "/") / ("a" * 200)))


def test_a_folder_below_has_what_the_folders_above_do_not_and_no_credentials(repo: Path) -> None:
    put(repo / "AGENTS.md", "Of all.")
    put(repo / ".env", "API_KEY=sk-ant-api03-9x8w7v6u5t4s3r2q1p0o9n8m7l6k5j4i3h2g1f0e\n")
    for name, target in (("api", "../AGENTS.md"), ("web", "../.env")):
        (repo / name).mkdir()
        (repo / name / "NEXUS.md").symlink_to(target)
    put(repo / "lib" / "CLAUDE.md", "Of lib.")
    put(repo / "lib" / ".claude" / "rules" / "c.md", "---\npaths: '*.c'\n---\nOf C.")
    put(repo / "dist" / "CLAUDE.md", "Of what was built.")
    paths = [str(repo / name) for name in ("api/a.py", "web/a.py", "lib/a.c", "dist/a.js", "lib/deep/a.py", "a.py")]

    def below(folder: Path) -> tuple[list[str], str]:
        found = layers_below(folder, [*paths, "/etc/passwd"], lambda: instruction_layers(folder))
        return [one.text for one in found if one.text], " ".join(one.notice for one in found)

    texts, notices = below(repo)
    assert texts == ["Of lib.", "Of C."]
    assert "web/NEXUS.md" in notices and "skipped" in notices
    assert below(repo / "lib")[0] == [], "a session there has its own"
    assert layers_below(repo, [str(repo / "lib" / "a.py")], list)[-1].text == "Of lib."


def test_a_folder_below_names_its_skills_once_they_are_trusted(repo: Path) -> None:
    guide = put(repo / "a b/.claude/skills/ship/SKILL.md", "---\ndescription: Ships it.\n---\nGo.\n")
    put(repo / "a b/.claude/skills/mine/SKILL.md", "---\ndescription: Mine.\ndisable-model-invocation: true\n---\nGo.")
    file = str(repo / "a b/src/x.py")
    [waiting] = layers_below(repo, [file], list)
    command = f"nexus trust {shlex.quote(f'{repo}/a b')}"
    assert not waiting.text and waiting.notice == f"2 skills of {command[12:]} not active (see `{command}`)"
    trust(repo / "a b", read_configuration(repo / "a b", KINDS))
    [found] = layers_below(repo, [file], list)
    assert found.text.splitlines()[1:] == [f"- ship: Ships it. ({guide})"] and not found.notice
    assert layers_below(repo / "a b", [file], list) == [], "a session there has its own"
    put(repo / "a b/.nexus/skills/test/SKILL.md", "Tests it.")
    [found] = layers_below(repo, [file], list)
    assert "ship" in found.text and found.notice.startswith("1 skill of ")
    guide.unlink()
    [found] = layers_below(repo, [file], list)
    assert "ship" not in found.text


def test_a_denied_skill_of_a_folder_below_is_not_named(repo: Path) -> None:
    put(repo / "sub/.claude/skills/ship/SKILL.md", "---\ndescription: Ships it.\n---\nGo.\n")
    trust(repo / "sub", read_configuration(repo / "sub", KINDS))
    file, denied = str(repo / "sub/x.py"), {"ship": "deny skill(ship)"}
    assert [found.text.splitlines()[1][:8] for found in layers_below(repo, [file], list)] == ["- ship: "]
    assert layers_below(repo, [file], list, find_denial=lambda kind, name: denied.get(name, "")) == []


def test_a_folder_below_with_skills_of_nexus_alone_names_them(repo: Path) -> None:
    put(repo / "sub/.nexus/skills/test/SKILL.md", "Tests it.")
    [found] = layers_below(repo, [str(repo / "sub/x.py")], list)
    assert found.notice.startswith("1 skill of ")


def test_a_repository_or_a_folder_of_programs_inside_the_project_gives_no_instructions(repo: Path) -> None:
    put(repo / "tool" / "NEXUS.md", "Of a tool.")
    put(repo / "tool" / "other" / ".git" / "HEAD", "ref: refs/heads/main")
    put(repo / "tool" / "module" / ".git", "gitdir: ../../.git/modules/module")
    foreign = ("tool/other", "tool/other/src", "tool/module", ".git", "tool/.nexus", ".claude", "node_modules/left")
    for name in foreign:
        put(repo / name / "NEXUS.md", f"Of {name}.")
    found = layers_below(repo, [str(repo / name / "a.py") for name in foreign], lambda: instruction_layers(repo))
    assert [one.text for one in found] == ["Of a tool."]
    inside = instruction_layers(repo / "tool" / "other")
    assert [one.text for one in inside if one.name != "global"] == ["Of tool/other."]


def test_files_of_one_folder_have_their_real_paths_and_the_folder_is_resolved_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/out").symlink_to("/etc/passwd")
    (tmp_path / "a/loop").symlink_to("loop")
    (tmp_path / "link").symlink_to("a")
    odd = ["a/x", "link/x", "link/out", "a/loop", "a/loop/x", "a/..", "link/../x", ".", "", "a/x/", "gone/x", "/etc//x"]
    for path in odd:
        assert _real_paths(tmp_path, [path]) == {os.path.realpath(os.path.join(tmp_path, path))}, path
    resolved: list[str] = []
    realpath = os.path.realpath

    def resolve(path: str) -> str:
        resolved.append(path)
        return realpath(path)

    monkeypatch.setattr(os.path, "realpath", resolve)
    assert len(_real_paths(tmp_path, [f"a/f{number}" for number in range(100)])) == 100
    assert resolved == [f"{tmp_path}/a"]
