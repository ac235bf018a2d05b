"""A tool that nobody knows is bound by what its definition says: its effect, its paths, its counts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from permission.test_call_permission import SETTINGS, Call, opened, results, write_settings
from project_files import write_files
from search import sample
from session.made_up import DEFINITIONS, made_up_tools
from session.played import Person, say

import nexus_cli
from nexus_cli.config.paths import places
from nexus_cli.conversation.compaction.recap import describe_call
from nexus_cli.conversation.pruning import find_stale
from nexus_cli.core import event as e
from nexus_cli.core.approval import Deny
from nexus_cli.core.entry import ItemForm
from nexus_cli.core.message import Message, Role, ToolCall, ToolResult
from nexus_cli.core.usage import Usage
from nexus_cli.rules.denied_files import find_denied_files
from nexus_cli.rules.rule_set import read_rules
from nexus_cli.tools.registry import discover_tools, find_tool
from nexus_cli.ui.render.rich_renderer import RichRenderer
from nexus_cli.ui.render.theme import Theme

TALLY: Call = ("word_tally", {"file": "secret.txt"})
PRY: Call = ("pry_through", {"text": "hush"})
STAMP: Call = ("stamp_upon", {"target": "secret.txt"})
REMOVE: Call = ("run_yonder", {"command": "rm secret.txt"})
DIAL: Call = ("dial_up", {"address": "https://example.org"})
PLAIN: list[list[Call]] = [[("word_tally", {"file": "plain.txt", "language": str(number)})] for number in range(9)]
"""So many steps that nothing before them is recent."""


@pytest.fixture(autouse=True)
def made_up(tmp_path: Path) -> Iterator[None]:
    with made_up_tools(tmp_path / "made_up"):
        yield


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    (folder / "secret.txt").write_text("hush hush")
    (folder / "plain.txt").write_text("hush now")
    return folder


def called(project: Path, call: Call, person: Person | None = None, **options: Any) -> ToolResult:
    """The result of one call in a session of its own."""
    session = opened(project, call, person=person, **options)
    [result] = results(say(session, "go")[0])
    return result


def rules(**lists: list[str]) -> None:
    write_settings("[rules]\n" + "".join(f"{decision} = {listed!r}\n" for decision, listed in lists.items()))


@pytest.mark.matrix
def test_no_room_names_them() -> None:
    root = Path(next(iter(nexus_cli.__path__)))
    texts = [path.read_text() for path in root.rglob("*") if path.suffix in (".py", ".json", ".toml", ".md")]
    assert not [name for name in DEFINITIONS if any(name in text for text in texts)]


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("rule", "call"),
    sample(
        [
            ("word_tally(secret.txt)", TALLY),
            ("word_tally", TALLY),
            ("read_file(secret.txt)", TALLY),
            ("read_file(*.txt)", TALLY),
            ("read_file", TALLY),
            ("pry_through", PRY),
            ("stamp_upon(secret.txt)", STAMP),
            ("edit_file(secret.txt)", STAMP),
            ("write_file(secret.txt)", STAMP),
            ("edit_file", STAMP),
            ("run_yonder(rm *)", REMOVE),
            ("run_yonder", REMOVE),
            ("bash(rm *)", REMOVE),
            ("dial_up", DIAL),
            ("greet_all", ("greet_all", {"name": "x"})),
        ],
        4,
    ),
)
def test_a_deny_rule_refuses_and_an_ask_rule_asks(rule: str, call: Call, project: Path) -> None:
    rules(deny=[rule])
    session = opened(project, call, allow="edit", person=(person := Person()))
    [result] = results(say(session, "go")[0])
    assert result.denied and f"deny {rule}" in result.text and not person.asked
    assert not session.notices and (project / "secret.txt").read_text() == "hush hush"
    rules(ask=[rule])
    person = Person(Deny("no"))
    if not call[0].startswith(("dial", "greet")):
        assert called(project, call, person, allow="edit").denied and len(person.asked) == 1


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("rule", "call"),
    sample(
        [
            ("edit_file(secret.txt)", TALLY),
            ("grep(secret.txt)", TALLY),
            ("glob(secret.txt)", TALLY),
            ("stamp_upon(secret.txt)", TALLY),
            ("word_tally(secret.txt)", STAMP),
            ("word_tally(secret.txt)", ("read_file", {"path": "secret.txt"})),
            ("stamp_upon(new.txt)", ("write_file", {"path": "new.txt", "content": "x"})),
            ("edit_file(new.txt)", ("write_file", {"path": "new.txt", "content": "x"})),
            ("run_yonder(touch *)", ("bash", {"command": "touch made"})),
            ("bash(rm *)", ("run_yonder", {"command": "ls"})),
        ],
        3,
    ),
)
def test_a_deny_rule_holds_for_no_tool_of_another_effect_or_name(rule: str, call: Call, project: Path) -> None:
    rules(deny=[rule])
    assert called(project, call, Person(), allow="edit").ran


@pytest.mark.matrix
@pytest.mark.parametrize("rule", ["read_file(secret.txt)", "pry_through(secret.txt)"])
def test_a_search_leaves_out_what_a_deny_rule_names(rule: str, project: Path) -> None:
    rules(deny=[rule])
    assert called(project, PRY).text == "plain.txt"


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("rule", "call"),
    sample(
        [
            ("word_tally({})", "word_tally"),
            ("read_file({})", "word_tally"),
            ("stamp_upon({})", "stamp_upon"),
            ("edit_file({})", "stamp_upon"),
            ("read_file({})", "pry_through"),
        ],
        3,
    ),
)
def test_an_allow_rule_with_a_path_opens_a_place_outside(rule: str, call: str, project: Path) -> None:
    outside = project.parent / "elsewhere"
    write_files(outside, {"a.txt": "hush"})
    named: dict[str, Any] = {
        "word_tally": {"file": f"{outside}/a.txt"},
        "stamp_upon": {"target": f"{outside}/a.txt"},
        "pry_through": {"folder": str(outside), "text": "hush"},
    }[call]
    person = Person(Deny("no"))
    assert called(project, (call, named), person, allow="edit").denied and person.asked[0].kind == "outside"
    rules(allow=[rule.format(f"{outside}/**")])
    assert called(project, (call, named), person, allow="edit").ran and len(person.asked) == 1


@pytest.mark.matrix
def test_reading_outside_offers_a_rule_for_the_folder(project: Path) -> None:
    outside = project.parent / "elsewhere"
    write_files(outside, {"a.txt": "hush"})
    called(project, ("word_tally", {"file": f"{outside}/a.txt"}), person := Person())
    assert person.asked[0].stores == (f"read_file({outside}/**)",)


@pytest.mark.matrix
def test_an_allow_rule_for_commands_lets_one_run(project: Path) -> None:
    assert called(project, REMOVE).denied
    for rule in ("bash(rm *)", "run_yonder(rm *)"):
        (project / "secret.txt").write_text("hush hush")
        write_settings(f'[rules]\nallow = ["{rule}"]\n[sandbox]\nbackend = "auto"\n')
        result = called(project, REMOVE)
        assert result.ran or "no sandbox" in result.text
        assert result.text.startswith("inside") or not result.ran


@pytest.mark.matrix
def test_credentials_and_protected_places_are_as_closed_as_to_others(project: Path) -> None:
    key = Path(os.path.expanduser("~/.ssh/id_rsa"))
    assert called(project, ("word_tally", {"file": str(key)}), Person(), allow="edit").denied
    assert called(project, ("stamp_upon", {"target": str(key)}), Person(), allow="edit").denied
    called(project, ("stamp_upon", {"target": ".git/config"}), person := Person(Deny("no")), allow="auto")
    assert [one.kind for one in person.asked] == ["protected"]


@pytest.mark.matrix
@pytest.mark.parametrize("level", sample(["plan", "ask", "edit", "auto"], 3))
def test_the_levels_are_those_of_the_effect(level: str, project: Path) -> None:
    asked = {
        "plan": (),
        "ask": ("stamp_upon", "run_yonder", "dial_up"),
        "edit": ("run_yonder", "dial_up"),
        "auto": ("dial_up",),
    }[level]
    touch: Call = ("run_yonder", {"command": "touch made"})
    for call in (TALLY, PRY, STAMP, touch, DIAL):
        person = Person(Deny("no"))
        result = called(project, call, person, allow=level)
        if call is touch and "no sandbox" in "".join(one.why for one in person.asked):
            continue
        assert [one.call.name for one in person.asked] == [name for name in asked if name == call[0]], call
        assert result.denied is (bool(person.asked) or (level == "plan" and call in (STAMP, touch, DIAL))), call


def test_walls_hide_what_a_rule_for_all_reading_names(project: Path) -> None:
    rules(deny=["word_tally(plain.txt)", "read_file(secret.txt)"])
    found = read_rules(places(), project, discover_tools())
    assert find_denied_files(found, project, project).paths == (project / "secret.txt",)


@pytest.mark.matrix
def test_a_changed_file_is_counted_and_what_was_read_of_it_is_stale(project: Path) -> None:
    (project / "long.txt").write_text("word " * 2000)
    tally: Call = ("word_tally", {"file": "long.txt"})
    read: Call = ("read_file", {"path": "./long.txt"})
    steps = [[tally], [read], [("stamp_upon", {"target": "long.txt"})], *PLAIN]
    session = opened(project, *steps, allow="edit")
    _, outcome = say(session, "go")
    assert session.result(outcome)["files_changed"] == ["long.txt"]
    items = [item for group in session.engine.conversation.groups() for item in group]
    stubs = [item.message.content[1:].partition("; recall")[0] for item in items if item.form is ItemForm.STUB]
    assert stubs == ["word_tally long.txt: changed below", "read_file ./long.txt: changed below"]


@pytest.mark.matrix
def test_a_second_reading_makes_the_same_one_stale_and_no_other(project: Path) -> None:
    text = " ".join(str(number * 7919 % 10_007) for number in range(190))  # many tokens, but not too long to send again
    (project / "long.txt").write_text(text)
    tally: Call = ("word_tally", {"file": "long.txt"})
    other: Call = ("word_tally", {"file": "./long.txt", "language": "fr"})
    read: Call = ("read_file", {"path": "long.txt"})
    kept = replace(SETTINGS, compact=replace(SETTINGS.compact, prune=False))
    session = opened(project, [tally], [other], [read], [tally], *PLAIN, settings=kept)
    say(session, "go")
    found = find_stale(session.engine.conversation.groups(), find_tool)
    assert [(one.item.entry, one.what, one.why) for one in found] == [(3, "word_tally long.txt", "read again below")]


@pytest.mark.matrix
def test_a_long_result_is_cut_and_kept(project: Path) -> None:
    session = opened(project, ("greet_all", {"name": "x", "long": True}))
    _, outcome = say(session, "go")
    [drop] = session.result(outcome)["drops"]
    assert drop["what"] == "result of greet_all x"


def test_a_command_stands_in_the_record_of_the_work(project: Path) -> None:
    call = ToolCall("c", "run_yonder", {"command": "make"})
    result = Message(Role.TOOL, "boom\n[exit status 2]", tool_call_id="c")
    subjects = {tool.name: tool.subject for tool in discover_tools().values()}
    assert describe_call(call, result, subjects).endswith('("make") -> exit 2: boom')


def shown(*calls: tuple[str, dict[str, Any], dict[str, int]]) -> str:
    pieces: list[str] = []
    renderer = RichRenderer(pieces.append, lambda: 80, Theme("dark", False), lambda: 1.0)
    for number, (name, arguments, counts) in enumerate(calls):
        call = ToolCall(f"c{number}", name, arguments)
        renderer.feed(e.ToolCallEvent(call, str(arguments[discover_tools()[name].subject])))
        renderer.feed(e.ToolResultEvent(call, ToolResult("hello you", counts=counts), 1, 0.1))
    renderer.feed(e.TurnEnd(e.Outcome(True, 0, "", "stop", None, 1, Usage(), 1.0)))
    return "".join(pieces)


def test_the_line_on_the_screen_has_verb_paths_and_counts() -> None:
    assert shown(("word_tally", {"file": "a.txt"}, {"words": 3, "first": 1})) == "✓ tally a.txt · 3 words\n"
    assert shown(("word_tally", {"file": "a.txt"}, {"words": 1})) == "✓ tally a.txt · 1 word\n"
    assert shown(("pry_through", {"text": "x", "folder": "src"}, {"places": 0})) == (
        "✓ pry_through x in src · no places\n"
    )
    assert shown(("greet_all", {"name": "x"}, {})) == "✓ greet_all x · hello you\n"


def test_many_calls_that_read_fold_into_one_line() -> None:
    tallies = [("word_tally", {"file": f"{number}.txt"}, {"words": 3}) for number in (1, 2, 2)]
    pryings = [("pry_through", {"text": "x"}, {"places": 1})] * 2
    assert shown(*tallies, *pryings).startswith("✓ 5 calls · tally 2 files · 2 pryings: ")
