"""Completion: which place calls for what, in which order it is offered, and that it can always be read back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from project_files import write_files
from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.document import Document

from nexus_cli.commands import discover
from nexus_cli.commands.command import OWN, Command, CommandContext
from nexus_cli.config.trust import trust
from nexus_cli.ui.input.attached_files import read_mentions
from nexus_cli.ui.input.completion import (
    COMMONEST,
    Completions,
    CompletionTarget,
    find_spot,
    list_programs,
    menu_rows,
    offers_completion,
)
from nexus_cli.ui.input.file_index import FileIndex


def command(name: str, help_: str, choices: Sequence[str] | None = None) -> Command:
    async def run(desk: CommandContext, rest: str) -> None:
        pass

    run.__doc__ = help_
    aliases = ("what",) if name == "help" else ()
    return Command(name, "nexus", run, complete=None if choices is None else lambda desk: choices, aliases=aliases)


def _fails(desk: CommandContext) -> Sequence[str]:
    raise RuntimeError("no choices today")


COMMANDS = {
    one.name: one
    for one in (
        command("model", "Use another model.", ["openai/gpt-5", "anthropic/claude", "ollama/gpt-oss"]),
        command("help", "Show what there is.\n\nMore."),
        command("recall", "Bring back what was left out."),
        Command("broken", "nexus", command("x", "x").run, complete=_fails),
    )
}


def offered(
    before: str, folder: Path, *, environ: Mapping[str, str] | None = None, desk: Any = COMMANDS
) -> list[Completion]:
    """What is offered at the end of `before`; a `desk` of None is that of a client of a server."""
    index = FileIndex(folder, folder)
    completions = Completions(folder, index, lambda: COMMANDS, lambda: desk)

    async def gather() -> list[Completion]:
        index.refresh()
        while await index.search("") is None:
            pass
        asked = CompleteEvent(text_inserted=True)
        return [one async for one in completions.get_completions_async(Document(before), asked)]

    with patch.dict(os.environ, environ or {}):
        return asyncio.run(gather())


def results(before: str, folder: Path, **more: Any) -> list[str]:
    """The text up to the cursor as each completion would make it."""
    return [before[: len(before) + one.start_position] + one.text for one in offered(before, folder, **more)]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("/", CompletionTarget("command", "", 1)),
        ("/mo", CompletionTarget("command", "mo", 3)),
        ("/model  gp", CompletionTarget("argument", "gp", 2, "model")),
        ("see @sr", CompletionTarget("file", "sr", 3)),
        ("(@sr", CompletionTarget("file", "sr", 3)),
        ('see @"a b', CompletionTarget("file", "a b", 5)),
        ('see @"a \\"b', CompletionTarget("file", 'a "b', 7)),
        ("!gi", CompletionTarget("program", "gi", 2)),
        ("!!gi", CompletionTarget("program", "gi", 2)),
        ("!git add sr", CompletionTarget("path", "sr", 2)),
        ("!./run", CompletionTarget("path", "./run", 5)),
        ("!cat @sr", CompletionTarget("file", "sr", 3)),
    ],
)
def test_a_place_is_known_by_what_stands_before_it(before: str, expected: CompletionTarget) -> None:
    assert find_spot(before) == expected


@pytest.mark.parametrize("before", ["", "hello", "me@example", "a/b", "\n/x", " /x", "word ", '@"a b" ', "@a b", "2!x"])
def test_elsewhere_nothing_is_completed(before: str) -> None:
    assert find_spot(before) is None and not offers_completion(before)


def test_behind_an_exclamation_mark_nothing_is_offered_before_the_first_letter() -> None:
    assert not any(map(offers_completion, ("!", "!ls "))) and all(map(offers_completion, ("!g", "!ls s", "@", "/")))


@pytest.mark.matrix
def test_commands_are_offered_with_their_help_those_that_begin_so_first_and_the_commonest(tmp_path: Path) -> None:
    assert results("/", tmp_path) == ["/help", "/model", "/recall", "/broken"]
    assert results("/el", tmp_path) == ["/help", "/model"]
    assert results("/re", tmp_path) == ["/recall"]
    assert results("/w", tmp_path) == ["/what"] and "/what" not in results("/h", tmp_path)
    assert [one.display_meta_text for one in offered("/he", tmp_path)] == ["Show what there is."]
    assert set(COMMONEST) <= set(discover())


@pytest.mark.matrix
def test_a_command_of_another_agent_offers_none_that_only_contains_its_name(tmp_path: Path) -> None:
    with patch.dict(COMMANDS, {"review": command("review", "Review changes.")}):
        assert results("/vi", tmp_path) == [], "Enter would run it"
        assert results("/vie", tmp_path) == ["/review"]


@pytest.mark.matrix
def test_the_choices_of_a_command_are_offered_behind_it(tmp_path: Path) -> None:
    assert results("/model gpt", tmp_path) == ["/model openai/gpt-5", "/model ollama/gpt-oss"]
    assert results("/model o", tmp_path)[0] == "/model openai/gpt-5"
    assert results("/model ", tmp_path)[2] == "/model ollama/gpt-oss"


def test_a_command_that_fails_to_name_its_choices_offers_none(tmp_path: Path) -> None:
    assert results("/broken x", tmp_path) == results("/unknown x", tmp_path) == []


@pytest.mark.matrix
def test_a_command_without_choices_takes_files(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    assert results("/help @a", tmp_path) == ["/help @a.py"]


@pytest.mark.matrix
def test_files_are_found_by_scattered_letters_and_folders_go_on(tmp_path: Path) -> None:
    for name in ("src/ui/box.py", "src/main.py", "readme.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert results("look at @box", tmp_path) == ["look at @src/ui/box.py"]
    assert results("@sbx", tmp_path) == ["@src/ui/box.py"]
    assert results("@src/", tmp_path) == ["@src/ui/", "@src/main.py", "@src/ui/box.py"]
    assert results("@", tmp_path)[0] == "@src/"
    assert results("@zzz", tmp_path) == []


@pytest.mark.matrix
def test_agents_are_offered_before_files(tmp_path: Path) -> None:
    write_files(tmp_path, {".claude/agents/any.md": "---\nname: reviewer\n---\nReview it.\n", "review.txt": "x"})
    assert results("ask @rev", tmp_path) == ["ask @review.txt"]
    trust(tmp_path)
    assert results("ask @rev", tmp_path) == ["ask @reviewer", "ask @review.txt"]
    assert results("ask @", tmp_path)[:1] != ["ask @reviewer"]


@pytest.mark.matrix
def test_names_with_spaces_are_quoted_and_a_folder_stays_open(tmp_path: Path) -> None:
    write_files(tmp_path, {"my docs/a b.txt": ""})
    assert results("@docs", tmp_path) == ['@"my docs/', '@"my docs/a b.txt"']
    assert results('@"my docs/', tmp_path) == ['@"my docs/a b.txt"']


@pytest.mark.matrix
@given(st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="/"), min_size=1, max_size=12))
def test_a_completed_mention_is_read_back_as_the_file_it_names(name: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        try:
            Path(folder, f"x{name}").write_text("found")
        except OSError:
            return
        for one in offered("see @x", Path(folder)):
            assert read_mentions(f"see {one.text} now", Path(folder)).blocks == [
                '<file path="x{}">\nfound\n</file>'.format(name.replace("&", "&amp;").replace('"', "&quot;"))
            ]


@pytest.mark.matrix
def test_what_is_shown_of_a_name_is_harmless(tmp_path: Path) -> None:
    (tmp_path / "a\u202egpj.exe").write_text("")
    assert [one.display_text for one in offered("@a", tmp_path)] == ["a<U+202E>gpj.exe"]


@pytest.mark.matrix
def test_paths_outside_the_project_are_completed_in_their_folder(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "notes.md").write_text("")
    assert results("@../no", tmp_path / "project") == ["@../notes.md"]


def test_the_first_word_of_a_shell_line_is_a_program_the_others_are_paths(tmp_path: Path) -> None:
    path = tmp_path / "bin"
    path.mkdir()
    for name in ("gitter", "grape", "plain"):
        (path / name).write_text("#!/bin/sh\n")
        (path / name).chmod(0o755 if name != "plain" else 0o644)
    (tmp_path / "gain.txt").write_text("")
    environ = {"PATH": f"relative{os.pathsep}{path}{os.pathsep}{tmp_path}/missing"}
    assert results("!g", tmp_path, environ=environ) == ["!gitter", "!grape"]
    assert results("!!gi", tmp_path, environ=environ) == ["!!gitter"]
    assert results("!gitter g", tmp_path, environ=environ) == ["!gitter gain.txt"]
    assert results("!g", tmp_path, environ=environ, desk=None) == [], "a shell line of a client runs in the server"
    assert results("!gitter g", tmp_path, environ=environ, desk=None) == []
    assert list_programs(environ["PATH"]) == ["gitter", "grape"]


async def test_without_a_list_of_the_project_names_are_completed_folder_by_folder(tmp_path: Path) -> None:
    (tmp_path / "here.md").write_text("")
    index = FileIndex(tmp_path, tmp_path, lister=_refused)
    completions = Completions(tmp_path, index, lambda: COMMANDS, lambda: None)

    asked = CompleteEvent(text_inserted=True)
    assert [one.text async for one in completions.get_completions_async(Document("@he"), asked)] == ["@here.md"]


def _refused(*_: object) -> Sequence[str]:
    raise OSError("not today")


def test_the_menu_of_a_bare_slash_begins_with_the_person_s_own_commands(tmp_path: Path) -> None:
    own = replace(command("zebra", "Ours (project)"), group=OWN, is_first=True)
    known = {**discover(), "zebra": own}
    completions = Completions(tmp_path, FileIndex(tmp_path, tmp_path), lambda: known, lambda: cast(Any, object()))

    def names(typed: str) -> list[str]:
        async def gather() -> list[str]:
            return [one.text async for one in completions.get_completions_async(Document(typed), CompleteEvent())]

        return asyncio.run(gather())

    assert names("/")[:3] == ["/zebra", "/help", "/plan"] and names("/e")[0] == "/exit"


def test_a_long_name_leaves_more_than_half_of_the_row_to_explanations() -> None:
    long = Completion("/" + "n" * 50, display_meta="x" * 60)
    rows = menu_rows([Completion("/help", display_meta="Show what there is."), long], None, 80, 8)
    told = [text.strip() for style, text in cast(Any, rows) if "meta" in style]
    assert "Show what there is." in told and max(map(len, told)) > 40
    aside = [Completion("/help", display_meta="y" * 60)] * 9
    first = "".join(text for _, text in cast(Any, menu_rows([*aside, long], 0, 80, 8))).split("\n")[0]
    assert first.startswith("> /help  y"), "a name that is not shown takes no room"
