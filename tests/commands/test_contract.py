"""What holds for every slash command: it explains itself, is listed, and takes whatever is typed behind it."""

from __future__ import annotations

import asyncio
import re
from importlib import import_module
from pathlib import Path

import pytest
from commands.conftest import FakeContext
from search import sample

from nexus_cli import commands
from nexus_cli.cli.app import COMMANDS, TYPED, find_command, find_noun
from nexus_cli.commands import PEER_COMMANDS, SHARED, discover, find, parse
from nexus_cli.commands.command import GROUPS, Command
from nexus_cli.commands.forms import find_form
from nexus_cli.commands.help import KEYS
from nexus_cli.commands.slash_command import read_arguments
from nexus_cli.commands.verb import Authority
from nexus_cli.core.errors import NexusError
from nexus_cli.testing import check_command

NAMES = list(discover())
TAKES_NOTHING = [name for name, command in discover().items() if not command.usage]
NONSENSE = [
    "[/bold] {} %s",
    "{0.__class__}",
    "--nonsense",
    "d1 9:x",
    "d999999999999999999999",
    "0",
    "-1",
    "1e9",
    "''",
    "a\x00b\x1b[2J",
    "é漢\U0001f600 x\ud800",
    "x" * 5000,
    "../../..",
    "~nobody/x",
    "a b c d",
]


@pytest.fixture(params=sample(NAMES, 3))
def command(request: pytest.FixtureRequest) -> Command:
    return discover()[request.param]


def test_every_file_exports_the_commands_that_are_found() -> None:
    files = {path.stem for path in Path(commands.__file__).parent.glob("*.py")} - {"__init__", *SHARED}
    modules = [import_module(f"nexus_cli.commands.{file}") for file in files]
    exported = [one.name for module in modules for one in getattr(module, "NOUNS", ())]
    exported += [module.NOUN.name for module in modules if hasattr(module, "NOUN")]
    told = "a file of nexus_cli/commands ends with a `NOUN` or `NOUNS = (Noun(...),)`, each name in it once"
    assert sorted(exported) == sorted(NAMES), told
    known = [name for one in discover().values() for name in (one.name, *one.aliases)]
    assert len(known) == len(set(known)), "two commands have one name"


def test_each_noun_is_a_word_of_the_command_line() -> None:
    readme = (Path(commands.__file__).parent / "README.md").read_text(encoding="utf-8")
    words = dict(re.findall(r"`(\w+): (\w+)`", readme))
    same = "space worktree plugin skill trust model key pin usage cache context timeline"
    for noun, word in {**words, **{name: name for name in same.split()}}.items():
        assert find_command(noun) == word, f"`nexus {noun}`: see the first paragraph of commands/README.md"
        assert noun in PEER_COMMANDS or find(noun, discover()), f"/{noun}"
    assert len(words) == 12


def test_a_verb_that_writes_to_the_ledger_declares_what_it_may_change() -> None:
    shell = [verb for name in COMMANDS if (noun := find_noun(name)) for verb in noun.verbs]
    verbs = [*shell, *(verb for command in discover().values() for verb in command.verbs)]
    writes = [verb for verb in verbs if verb.opens in ("write", "create")]
    assert len(writes) > 20 and all(verb.authority is not Authority.READS for verb in writes)


def test_a_verb_of_the_shell_and_of_a_session_is_one_function() -> None:
    slash = {command.name: {verb.name: verb for verb in command.verbs} for command in discover().values()}
    pairs = [
        (f"{name} {verb.name}".strip(), verb.run, slash.get(name, {}).get(verb.name))
        for name in COMMANDS
        if name not in TYPED and (noun := find_noun(name))
        for verb in noun.verbs
    ]
    differing = {line for line, run, other in pairs if other and other.run is not run}
    assert len(pairs) > 80 and differing == {"schedule run"}, "in a session it is queued for the server"


def test_the_commands_of_the_first_days_are_there() -> None:
    wanted = (
        "help clear compact context drops model effort permissions resume fork rename export diff cost "
        "reload editor copy exit"
    )
    assert all(find(name, discover()) for name in wanted.split()) and list(
        dict.fromkeys(discover()[n].group for n in NAMES)
    ) == list(GROUPS[:-1])


def test_a_command_explains_itself(command: Command) -> None:
    check_command(command)
    assert command.group in GROUPS


def test_help_explains_ten_commands_and_names_the_others_on_one_screen(context: FakeContext) -> None:
    context.run("help").run("help all")
    first, everything = (value for _, value in context.shown)
    names, all_names = (
        [one["name"] for group in value["groups"] for one in group["commands"]] for value in (first, everything)
    )
    others = [name for group in first["more"] for name in group["names"]]
    assert len(names) == 10 and {"plan", "resume", "permissions", "undo"} <= set(names)
    assert sorted([*names, *others]) == sorted(all_names)
    assert everything["keys"] == KEYS
    text = find_form("help")(first, 80)
    assert len(text.splitlines()) <= 24 - 4, "one screen, with what was typed and the prompt"
    assert set(others) <= set(text.replace(",", " ").split())
    assert not {"recall", "unpin", "tools"} & set(all_names), "other commands do these"


def test_help_explains_a_verb_with_its_options(context: FakeContext) -> None:
    for command in discover().values():
        for verb in command.verbs:
            if not verb.name:
                continue
            text = find_form("help")(context.run(f"help {command.name} {verb.name}").shown[-1][1], 120)
            assert verb.name in text.split() and verb.help.split(".")[0].split()[0] in text
            assert all(flag in text for one in verb.parameters for flag in one.flags[:1])
    for wrong in ("memory frobnicate", "exit now"):
        with pytest.raises(NexusError, match=r"must be one of|has no subcommands"):
            context.run(f"help {wrong}")


def test_help_lists_every_command_and_tells_all_of_each(context: FakeContext) -> None:
    context.run("help all")
    listed = context.shown[-1][1]
    for command in discover().values():
        context.run(f"help {command.name}").run(f"help /{command.name}")
        one, same = context.shown[-2:]
        assert one == same and command.help.split()[0] in find_form("help")(one[1], 80)
        for width in (20, 80, 200):
            assert f"/{command.name}" in find_form("help")(listed, width)
        call = f"/{command.name} {command.usage}".strip()
        assert call in find_form("help")(listed, 80) and call in find_form("help")(one[1], 80)


def test_help_says_what_becomes_of_a_command_during_a_turn(context: FakeContext) -> None:
    told = {name: find_form("help")(context.run(f"help {name}").shown[-1][1], 80) for name in ("compact", "cost")}
    assert told["compact"].endswith("During a turn, the command waits until the turn ends.")
    assert "During a turn" not in told["cost"]


def run(context: FakeContext, line: str) -> None:
    """Run a command; whatever is wrong is one line with a hint."""
    try:
        context.run(line)
    except NexusError as error:
        assert error.kind in ("usage", "config") and error.line.count("\n") == 0 and error.hint
        assert len(error.line) < 6000


@pytest.mark.matrix
def test_a_command_takes_no_argument_and_any_nonsense(context: FakeContext, command: Command) -> None:
    context.turn("words")
    for rest in ["", *NONSENSE]:
        run(context, f"{command.name} {rest}".strip())
    assert context.turn("more").outcome.ok


def test_a_command_works_before_anything_was_said(context: FakeContext, command: Command) -> None:
    run(context, command.name)
    assert context.turn("words").outcome.ok


@pytest.mark.parametrize("name", sample(TAKES_NOTHING, 3))
def test_what_takes_no_arguments_says_so(context: FakeContext, name: str) -> None:
    with pytest.raises(NexusError, match="takes no arguments"):
        context.run(f"{name} something")


def test_completions_are_words_for_what_takes_arguments(context: FakeContext) -> None:
    context.turn("words")
    for command in discover().values():
        assert bool(command.complete) <= bool(command.usage)
        for word in command.complete(context) if command.complete else ():
            assert word and word == " ".join(word.split()), "what is chosen can be sent as it is"


def test_unknown_names_suggest_the_nearest() -> None:
    assert find("quit", discover()).name == "exit"
    assert find("Context", discover()).name == "context" and find("QUIT", discover()).name == "exit"
    misspelt = ("CONTXT", "/context"), ("contxt", "/context"), ("modle", "/model"), ("", "/help lists")
    for typed, near in (*misspelt, ("comp", "/compact"), ("zzzzzz", "/help"), ("[/bold]", "")):
        with pytest.raises(NexusError) as caught:
            find(typed, discover())
        assert near in caught.value.hint and typed in caught.value.line


def test_commands_of_other_agents_name_what_does_it_here() -> None:
    """Each hint gives a key, a shell line, or commands that exist; a name that is ours already gives none."""
    for name, hint in PEER_COMMANDS.items():
        assert set(re.findall(r"(?<!\S)/([\w-]+)", hint)) <= set(NAMES), hint
        assert re.search(r"(?:^|\s)[/!@]\w|nexus \w|Ctrl\+|Shift\+", hint), hint
        with pytest.raises(NexusError, match=f"(?i)/{name}: ") as caught:
            find(name.upper() if name == "undo" else name, discover())
        assert caught.value.hint == hint
    for name, words in (("drop", "@FILE"), ("run", "!COMMAND"), ("share", "/export"), ("details", "Ctrl+O")):
        assert words in PEER_COMMANDS[name], name


def test_a_name_that_is_only_a_little_like_a_command_suggests_none() -> None:
    for typed in ("idea", "slop", "please", "personality"):
        with pytest.raises(NexusError) as caught:
            find(typed, discover())
        assert caught.value.hint == "/help lists the commands"


def test_no_hint_throws_away_what_the_person_did_not_commit() -> None:
    assert not any(re.search(r"git (restore|reset|checkout|stash|clean)", hint) for hint in PEER_COMMANDS.values())
    assert all("/undo" in PEER_COMMANDS[name] for name in ("revert", "restore"))
    assert "ui.keys vi" in PEER_COMMANDS["vim"]


NEED_THE_LEDGER = [
    "agents",
    "cache",
    "clear",
    "cost",
    "drops",
    "export",
    "fork",
    "rename",
    "resume",
    "sessions",
    "space",
]


def test_without_a_ledger_commands_that_need_it_say_so(context: FakeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(context.session.aclose())
    monkeypatch.setattr(context.session, "_opening", None)
    for name in NEED_THE_LEDGER:
        with pytest.raises(NexusError, match="no ledger"):
            context.run(f"{name} x" if name == "rename" else name)
    offered = discover()["drops"].complete(context)  # type: ignore[misc]
    assert not any("d1" in word for word in offered), "and completion has no drop to offer"


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("/help", ("help", "")),
        ("/help  context ", ("help", "context")),
        ("/compact keep [/bold] %s", ("compact", "keep [/bold] %s")),
        ("/", ("", "")),
        ("/ help", ("", "help")),
        ("//", ("", "")),
        ("/help/", ("help", "")),
        ("/usr/bin/env is what?", None),
        ("/a.py", None),
        (" /help", None),
        ("/compact\nmore", None),
        ("/compact keep\nmore", None),
        ("/plan change b.py so that:\nx is 2\n", ("plan", "change b.py so that:\nx is 2")),
        ("/PLAN\n\n  one\n\ntwo", ("PLAN", "one\n\ntwo")),
        ("/planned a\nb", None),
        ("/plan/a.py x\ny", None),
        (" /plan a\nb", None),
        ("words /help", None),
        ("", None),
    ],
)
def test_a_line_is_a_command_or_words(line: str, meant: tuple[str, str] | None) -> None:
    assert parse(line) == meant


def test_a_flag_takes_no_value_and_a_list_of_paths_is_several(context: FakeContext) -> None:
    undo = next(verb for verb in discover()["undo"].verbs)
    assert read_arguments("undo", undo, "a.py 'b c.py' --all") == {"path": ["a.py", "b c.py"], "everything": True}
    with pytest.raises(NexusError, match="takes no value"):
        read_arguments("undo", undo, "--all=no")
