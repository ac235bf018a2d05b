"""`nexus docs`: every page prints, and what a page names exists: commands, options, settings, tools, error kinds."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import select
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import Run
from tools.definitions import update

from nexus_cli.cli import app
from nexus_cli.cli.doc_pages import TOPICS, page_text, search_pages
from nexus_cli.commands import discover
from nexus_cli.commands.help import KEYS
from nexus_cli.config.paths import PACKAGE
from nexus_cli.config.setting_tables import SETTINGS
from nexus_cli.config.settings_text import settings_text
from nexus_cli.core.approval import Question
from nexus_cli.core.entry import Cause
from nexus_cli.core.errors import EXIT_STATUS
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.tool import ToolContext
from nexus_cli.rpc.jsonrpc import MEANINGS
from nexus_cli.rpc.methods import METHODS
from nexus_cli.sections.recipe import load_recipe
from nexus_cli.tools import builtin
from nexus_cli.tools.files import HARD_LIMIT
from nexus_cli.tools.registry import discover_tools
from nexus_cli.ui.render.question_text import answer_keys

WRITTEN = sorted(path.stem for path in (PACKAGE / "docs").glob("*.md"))


def test_the_list_names_every_page_and_each_prints(nexus: Run) -> None:
    listed = nexus("docs")
    assert [line.split()[0] for line in listed.stdout.decode().splitlines()] == list(TOPICS)
    for topic in ("settings", "context"):
        done = nexus("docs", topic)
        assert (done.returncode, done.stderr) == (0, b"") and done.stdout.decode() == page_text(topic).rstrip() + "\n"


def test_words_are_searched_in_all_pages_and_the_best_sections_come_first(nexus: Run) -> None:
    done = nexus("docs", "proxy", "password")
    assert (done.returncode, done.stderr) == (0, b"")
    first, *_, last = done.stdout.decode().splitlines()
    assert first.startswith("network ") and "HTTPS_PROXY=" in first
    assert "nexus docs PAGE" in last


def test_the_sections_that_fit_best_come_first_in_a_search() -> None:
    assert search_pages(["proxy", "password"])[0][0] == "network"
    assert search_pages(["undo"])[0][0] == "commands" and len(search_pages(["a"])) == 12
    assert search_pages(["SHIFT+tab"]) and not search_pages(["hift+tab"]), "the beginning of a word, in any case"
    for topic, heading, line in search_pages(["max_cost"]):
        assert heading in page_text(topic) and line in page_text(topic)


def test_every_page_has_a_title_and_every_written_one_a_topic_and_a_fair_length() -> None:
    assert set(WRITTEN) < set(TOPICS)
    for topic in TOPICS:
        assert page_text(topic).startswith("# "), topic
    for topic in WRITTEN:
        lines = (PACKAGE / "docs" / f"{topic}.md").read_text().splitlines()
        assert 40 <= len(lines) <= 120, f"docs/{topic}.md has {len(lines)} lines; write 40 to 120"
        long = [number for number, line in enumerate(lines, 1) if len(line) > 120 and "|" not in line]
        assert not long, f"docs/{topic}.md: wrap these lines at 120 characters: {long}"


@pytest.mark.matrix
def test_a_long_page_goes_through_the_pager_of_a_terminal(tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\nsed 's/^/> /'\n")
    pager.chmod(0o755)
    controller, terminal = pty.openpty()
    env = {**os.environ, "PAGER": str(pager), "TERM": "xterm", "COLUMNS": "40"}
    command = [sys.executable, "-m", "nexus_cli", "docs", "glossary"]
    child = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, cwd=PACKAGE, env=env)
    os.close(terminal)
    shown = b""
    while select.select([controller], [], [], 120)[0]:
        try:
            shown += os.read(controller, 65536)
        except OSError:  # the terminal has closed
            break
    os.close(controller)
    assert child.wait(timeout=120) == 0
    assert shown.startswith(b"> # Glossary") and b"> | worktree |" in shown
    rows = [line.removeprefix("> ") for line in shown.decode().splitlines()]
    assert max(map(len, rows)) <= 40 and " ".join(rows).split() == page_text("glossary").split(), "no word is broken"


def blocks(topic: str, language: str = "") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page_text(topic), re.MULTILINE | re.DOTALL)


def commands_in(text: str) -> list[list[str]]:
    """The words behind `nexus` of each command in code."""
    fenced = "".join(re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    code = [*re.findall(r"`([^`\n]+)`", text), *re.findall(r"^(?:\$ )?(nexus .*)", fenced, re.MULTILINE)]
    quoted = r"'[^']*'|\"[^\"]*\""
    lines = [re.split(r"[|<>#]", re.sub(quoted, "TEXT", one))[0].split() for one in code if one.startswith("nexus ")]
    return [words[1:] for words in lines]


def unknown_words(words: list[str]) -> list[str]:
    """What a command line names that the program does not have."""
    command: Any = app.build(completion=False)
    while words and not words[0].startswith("-"):
        parts = command.list_commands(None) if command.name in ("nexus", None) else getattr(command, "commands", {})
        if not parts:
            break
        if words[0].isupper():  # COMMAND
            return []
        if words[0] not in (*parts, *app.FORMER):
            return words[:1]
        command = command.get_command(None, words.pop(0))
    options = {name for param in command.params for name in (*param.opts, *param.secondary_opts)} | {"--help"}
    return [word for word in words if re.match(r"--?[a-z]", word) and word not in options]


@pytest.mark.parametrize("topic", WRITTEN)
def test_every_command_option_and_setting_that_a_page_names_exists(topic: str) -> None:
    text = page_text(topic)
    mend = f"nexus_cli/docs/{topic}.md names what is not there; write the right name, or take it out"
    assert [(words, bad) for words in commands_in(text) if (bad := unknown_words(list(words)))] == [], mend
    settings = tomllib.loads(settings_text())
    named = re.findall(r"`([a-z]+\.[a-z_]+)`", text)
    assert [key for key in named if key.partition(".")[0] in settings and key not in SETTINGS] == [], mend
    slashes = re.findall(r"`/([a-z]+)[ `]", text)
    known = {name for one in discover().values() for name in (one.name, *one.aliases)} | {"rpc", "openrpc"}
    assert [name for name in slashes if name not in known] == [], mend
    pages = re.findall(r"nexus docs ([a-z-]+)", text)
    assert [page for page in pages if page not in TOPICS and not search_pages([page])] == [], mend


def test_a_wrong_command_on_a_page_would_be_found() -> None:
    found = commands_in("`nexus sessions lst`\n```sh\nnexus drops show d3 --rang 1 > file\n```\n`nexus ask --json x`")
    assert [unknown_words(words) for words in found] == [["lst"], [], ["--rang"]]


def test_the_page_of_settings_has_every_line_of_the_defaults() -> None:
    page = set(page_text("settings").splitlines())
    for line in settings_text().splitlines():
        assert {line, line.removeprefix("# ")} & page, f"the page of settings lacks this line of config.toml: {line}"
    assert len(blocks("settings", "toml")) > 40
    for block in blocks("settings", "toml"):
        tomllib.loads(block)
        tomllib.loads("".join(line.removeprefix("# ") for line in block.splitlines(keepends=True)))


def test_the_page_of_commands_has_every_command_option_and_key() -> None:
    page = page_text("commands")
    for name in app.COMMANDS:
        command = app.load_command(name)
        assert f"### nexus {name} " in page
        for part, child in getattr(command, "commands", {}).items():
            assert f"### nexus {name} {part} " in page
            assert all(param.opts[-1] in page for param in child.params if param.param_type_name == "option")
    assert all(f"- `/{one.name}" in page for one in discover().values())
    assert all(f"| `{keys}` |" in page for keys, _ in KEYS)


def test_the_page_of_commands_says_what_each_answer_stores() -> None:
    call = ToolCall("c1", "bash", {}, "{}")
    question = Question(call, "bash x", "", "", "", "run", stores=("bash(x)",))
    keys = re.findall(r"`(\w)`", "".join(re.findall(r"^\| (`\w`(?:, `\w`)*)", page_text("commands"), re.MULTILINE)))
    there = {one.key for one in answer_keys(question, 2)}
    assert set(keys) == there, f"the table of answers in the page of commands has to name these keys: {sorted(there)}"


def test_tables_of_pages_are_complete() -> None:
    status = page_text("exit-status")
    for kind, code in EXIT_STATUS.items():
        told = f"name `{kind}` in nexus_cli/docs/exit-status.md: in the row of {code} and in a row of its own"
        assert re.search(rf"^\| {code} \|.*`{kind}`", status, re.MULTILINE) and f"| `{kind}` |" in status, told
    table = page_text("tools").partition("## How")[0]
    rows = re.findall(r"^\|([^|]*)\|", table.partition("| tool |")[2].partition("\n\n")[0], re.MULTILINE)
    tools, named = discover_tools(), set(re.findall(r"`(\w+)`", "".join(rows)))
    assert not named - tools.keys(), f"take out of the table in nexus_cli/docs/tools.md: {sorted(named - tools.keys())}"
    for name, tool in tools.items():
        told = f"add to the table in nexus_cli/docs/tools.md: | `{name}` | what it does | {tool.effect} |"
        assert name in named and re.search(rf"^\|.*`{name}`.*\| {tool.effect} \|$", table, re.MULTILINE), told
    causes = sorted(set(Cause) - set(re.findall(r"`(\w+)`", page_text("context").partition("| cause of")[2])))
    assert not causes, f"add to the table of causes in nexus_cli/docs/context.md: {causes}"
    server = page_text("events").partition("## The server")[2]
    told = "add to the tables of nexus_cli/docs/events.md, under `The server`: "
    assert not (left := [name for name in METHODS if f"`{name}`" not in server]), f"{told}{left}"
    codes = [code for code in MEANINGS if -32010 < code <= -32001 and f"| {code} |" not in server]
    assert not codes, f"{told}{codes}"
    words = re.findall(r"^\| (\w[\w ]*) \|", page_text("glossary"), re.MULTILINE)[1:]
    assert words == sorted(words), "sort the words of nexus_cli/docs/glossary.md"


@pytest.mark.matrix
def test_the_readme_says_what_the_first_request_of_an_empty_folder_holds(nexus: Run) -> None:
    readme = (PACKAGE.parent / "README.md").read_text()
    said = re.search(r"system text and tool schemas \(about ([\d,]+)\s+tokens in an empty folder\)", readme)
    assert said is not None
    key = {"NEXUS_MODEL": "anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY": "k"}
    done = nexus("context", "--recipe", "chat", "--json", env=key)
    used = json.loads(done.stdout)["budget"]["used"]
    sent = used["system"] + used["tools"]
    assert used["history"] == 0
    assert abs(int(said[1].replace(",", "")) - sent) <= 0.03 * sent, f"write into README.md: {sent:,} tokens"


@pytest.mark.matrix
def test_the_example_of_a_tool_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (definition,), (source,) = blocks("tools", "json"), blocks("tools", "python")
    folder, project = tmp_path / "builtin", tmp_path / "project"
    folder.mkdir()
    project.mkdir()
    (folder / "count_lines.json").write_text(definition)
    (folder / "count_lines.py").write_text(source)
    (project / "a.txt").write_text("1\n2\n3\n")
    monkeypatch.setattr(builtin, "__path__", [*builtin.__path__, str(folder)])
    (folder / "count_lines.json").write_text(update(folder / "count_lines.json"))
    tool = discover_tools()["count_lines"]
    assert tool.paths == ("path",)
    context = ToolContext(project, project, 1000, "c1", print)

    async def run(path: str) -> ToolResult:
        return await tool.run({"path": path}, context)

    assert asyncio.run(run("a.txt")).output == "3 lines"
    assert "b.txt" in asyncio.run(run("b.txt")).error
    (project / "b.txt").write_bytes(b"a\0\n" * 9)
    assert asyncio.run(run("b.txt")).error == "b.txt: is binary"
    (project / "c.txt").write_bytes(b"one\n" * (HARD_LIMIT // 4 + 1))
    assert asyncio.run(run("c.txt")).error == "c.txt: is over 64 MiB"


def test_the_example_of_a_recipe_is_one(tmp_path: Path) -> None:
    (text,) = blocks("recipes", "toml")
    (tmp_path / "review.toml").write_text(text)
    recipe = load_recipe("review", [tmp_path])
    assert recipe.limits.categories == frozenset(("none", "read")) and recipe.multipliers["workspace"] == 0


def test_examples_of_settings_are_accepted(nexus: Run, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "config").mkdir(parents=True)
    texts = [block for topic in ("rules", "sandbox", "services") for block in blocks(topic, "toml")]
    assert len(texts) == 4
    (home / "config" / "config.toml").write_text("\n".join(texts))
    done = nexus("config", "show", "--json", env={"NEXUS_HOME": str(home)})
    assert done.returncode == 0, done.stderr
    shown = json.dumps(json.loads(done.stdout))
    assert "git push" in shown and "NPM_TOKEN" in shown
    assert "services.ci.secret" in shown and "api.github.com" in shown
