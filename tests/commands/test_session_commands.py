"""Commands that open, leave, copy, name and write out sessions."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from commands.conftest import FakeContext
from ledger.conftest import fail_writes, user
from server.play import closed_port
from session.played import MODEL, the_ledger

from nexus_cli import __version__
from nexus_cli.commands.forms import find_form
from nexus_cli.commands.usage import usage_report
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.event import CompactionDone
from nexus_cli.reports.text.lines import dollars
from nexus_cli.sandbox import probe


@pytest.mark.matrix
def test_clear_begins_a_new_session_and_tells_how_to_get_back(context: FakeContext) -> None:
    context.turn("words")
    before = context.session.id
    context.run("clear")
    assert context.session.id != before and before[-6:] in context.said[-1]
    assert context.session.model == MODEL and context.turn("new").outcome.ok
    assert len(context.provider.seen[-1]) == 2, "the new session begins empty"
    context.run(f"resume {before[:20]}")
    assert context.session.id == before and context.turn("back").outcome.ok
    assert "words" in json.dumps(context.provider.seen[-1])


def test_clear_of_a_session_without_words_leaves_nothing_behind(context: FakeContext) -> None:
    context.run("clear").run("clear")
    assert not context.said
    with the_ledger() as ledger:
        assert len(ledger.sessions()) == 1


@pytest.mark.matrix
def test_resume_offers_the_other_sessions_of_the_folder(context: FakeContext, tmp_path: Path) -> None:
    context.run("resume")
    assert "No other session" in context.said[-1] and not context.offered
    context.turn("first words of mine")
    first = context.session.id
    context.run("clear").turn("second")
    elsewhere = FakeContext(tmp_path.parent, context.provider)
    elsewhere.turn("elsewhere")
    context.run("resume")
    assert [choice.key for choice in context.offered] == [first] and "first words" in context.offered[0].label
    second = context.session.id
    assert context.session.id == second, "picking nothing changes nothing"
    context.pick = lambda choices: choices[0].key
    context.run("resume")
    assert context.session.id == first
    context.run(f"resume {first}")
    assert "already" in context.said[-1]
    for nobody in ("nope", "%", "[/bold]"):
        with pytest.raises(NexusError, match="no such session"):
            context.run(f"resume {nobody}")
    assert context.session.id == first


def test_resume_finds_a_session_by_words_of_its_title_or_by_what_was_said_in_it(context: FakeContext) -> None:
    context.turn("fix the discount of the shop")
    first = context.session.id
    context.run("clear").turn("fix the tax")
    second = context.session.id
    context.turn("the word marzipan is only said in here")
    context.run("clear").turn("other things")
    context.run("resume discount fix")
    assert context.session.id == first, "one title has both words"
    context.run("resume fix")
    assert context.session.id == second and not context.offered, "the open one is none of several"
    context.run("clear").turn("and now")
    third = context.session.id
    context.run("resume fix")
    assert context.session.id == third and {one.key for one in context.offered} == {first, second}
    assert context.search is not None and [one.key for one in context.search("tax")[0]] == [second]
    context.run("resume marzipan")
    assert context.session.id == second and any("No title contains" in line for line in context.said)
    with pytest.raises(NexusError, match="no such session"):
        context.run("resume nothing-has-this")


def test_resume_searches_all_sessions_and_not_only_those_that_it_offers(
    context: FakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nexus_cli.commands.sessions.MOST", 2)
    ids = []
    for number in ("zero", "one", "two", "three"):
        context.turn(f"topic {number}")
        ids.append(context.session.id)
        context.run("clear")
    context.run("resume")
    assert [choice.key for choice in context.offered] == [ids[3], ids[2]] and context.search
    oldest, count = context.search("topic zero")
    assert [choice.key for choice in oldest] == [ids[0]] and count == 1
    assert context.search("topic")[1] == 4 and context.search("nothing of it") == ([], 0)


@pytest.mark.matrix
def test_runs_of_ask_are_offered_only_when_all_are_asked_for(context: FakeContext, tmp_path: Path) -> None:
    context.turn("a first message that is long " * 9)
    first = context.session.id
    context.run("clear")
    run = FakeContext(tmp_path, context.provider, front="ask")
    run.turn("asked by a script")
    context.run("resume")
    assert [choice.key for choice in context.offered] == [first]
    assert len(context.offered[0].label) == 100 and context.offered[0].label.endswith("…")
    assert "just now" in context.offered[0].detail and "1 turn" in context.offered[0].detail
    context.run("resume --all")
    assert {choice.key for choice in context.offered} == {first, run.session.id}
    with the_ledger() as ledger:
        for choice in context.offered:
            short = choice.detail.split()[-1]
            assert 6 <= len(short) < 26 and ledger.find_session(short).id == choice.key


@pytest.mark.matrix
def test_a_session_that_another_process_works_in_is_not_taken(context: FakeContext, tmp_path: Path) -> None:
    other = FakeContext(tmp_path, context.provider)
    other.turn("mine")
    context.turn("words")
    before = context.session.id
    with pytest.raises(NexusError, match="open elsewhere"):
        context.run(f"resume {other.session.id}")
    assert context.session.id == before and context.turn("still here").outcome.ok


@pytest.mark.matrix
def test_resume_also_called_sessions_offers_those_of_this_folder_or_all(context: FakeContext, tmp_path: Path) -> None:
    context.turn("here")
    other = FakeContext(tmp_path.parent, context.provider)
    other.turn("there")
    assert "No other sessions" in context.run("sessions").said[-1]
    context.run("sessions --all")
    assert [choice.key for choice in context.offered] == [other.session.id]


@pytest.mark.matrix
def test_sessions_are_listed_read_searched_copied_and_named_by_verbs(context: FakeContext) -> None:
    context.turn("a first thing")
    first = context.session.id
    context.run("clear").turn("the word marzipan")
    context.run("sessions list")
    assert {one["id"] for one in context.shown[-1][1]["sessions"]} == {first, context.session.id}
    assert context.run(f"sessions show {first}").shown[-1][1]["entries"][0]["text"] == "a first thing"
    hits = context.run("sessions search marzipan").shown[-1][1]["hits"]
    assert {one["session"] for one in hits} == {context.session.id}
    made = context.run(f"sessions fork {first} --name copy").said[-1]
    context.run(f"sessions rename {made} 'another name'")
    with the_ledger() as ledger:
        assert ledger.session(made).name == "another name" and ledger.session(made).parent == first


def test_a_session_is_deleted_once_the_person_agrees_and_the_open_one_never(context: FakeContext) -> None:
    context.turn("words")
    first = context.session.id
    context.run("clear").turn("more")
    with pytest.raises(NexusError, match="cancelled"):
        context.run(f"sessions delete {first}")
    context.pick = lambda choices: choices[0].key
    assert context.run(f"sessions delete {first}").said[-1] == "Nothing was deleted."
    context.pick = lambda choices: choices[1].key
    with the_ledger() as ledger:
        before = usage_report(ledger)["total"]["known_usd"]
    told = context.run(f"sessions delete {first}").said[-1]
    with the_ledger() as ledger:
        lost = dollars(before - usage_report(ledger)["total"]["known_usd"])
    assert told.startswith(f"Session {first} was deleted") and f" Its {lost} no longer counts in " in told
    with pytest.raises(NexusError, match="this is the current session"):
        context.run(f"sessions delete {context.session.id} --yes")
    with the_ledger() as ledger:
        assert [one.id for one in ledger.sessions()] == [context.session.id]


@pytest.mark.matrix
def test_a_fork_goes_on_beside_its_source(context: FakeContext) -> None:
    with pytest.raises(NexusError, match="has no messages yet"):
        context.run("fork")
    context.turn("shared words")
    source = context.session.id
    context.run("fork a copy")
    assert context.session.id != source and source[-6:] in context.said[-1]
    context.turn("only in the copy")
    assert context.provider.seen[-1][: len(context.provider.seen[0])] == context.provider.seen[0], (
        "the prefix is shared"
    )
    with the_ledger() as ledger:
        assert ledger.session(source).entries == 2 and ledger.session(context.session.id).entries == 4
        assert ledger.find_session("a copy").id == context.session.id


def test_a_session_that_goes_on_without_saving_keeps_its_name(context: FakeContext) -> None:
    context.turn("words")
    unsaved = FakeContext(context.session.folder, context.provider, save=False, resume=context.session.id)
    with pytest.raises(NexusError, match="changes to this session are not saved"):
        unsaved.run("rename mine")
    unsaved.run("cost")
    assert unsaved.said[-1].startswith("Part of this session is not saved: this report ends with request 1; ")
    asyncio.run(unsaved.session.aclose())
    with the_ledger() as ledger:
        assert ledger.session(context.session.id).name == ""


@pytest.mark.matrix
def test_the_last_message_is_edited_in_a_copy_that_ends_before_it(context: FakeContext) -> None:
    with pytest.raises(NexusError, match="you have not sent a message"):
        context.run("edit")
    context.turn("first words")
    output = '<shell command="ls &amp;">\na\n\n</shell>\nb\n</shell>'
    given = [output, '<recalled id="d9" characters="0:1 of 1">\nx\n</recalled>']
    file = '<file path="a.md">\n<shell command="no">\nx\n</shell>\n\n</file>'
    context.turn("\n\n".join(["second words", *given, file]))
    source = context.session.id
    context.run("edit")
    assert context.filled == "second words" and source[-6:] in context.said[-1] and "Files" in context.said[-1]
    assert context.attached == [(given[0], "ls &"), (given[1], "d9")], "the words name no output and no drop"
    context.turn("other words")
    sent = json.dumps(context.provider.seen[-1])
    assert "first words" in sent and "other words" in sent and "second words" not in sent
    context.run("edit").run("edit")
    assert context.filled == "first words"
    context.turn("begun again")
    assert len(context.provider.seen[-1]) == 2, "the copy of nothing begins empty"
    with the_ledger() as ledger:
        assert ledger.session(source).entries == 4


def test_a_message_of_the_list_is_gone_back_to_and_nothing_is_forked_before_it_is_chosen(context: FakeContext) -> None:
    context.turn("first words")
    context.turn("second words")
    source = context.session.id
    context.run("edit list")
    assert [choice.label for choice in context.offered] == ["second words", "first words"]
    with the_ledger() as ledger:
        assert context.session.id == source and len(ledger.sessions()) == 1
    context.pick = lambda choices: choices[1].key
    context.run("edit list")
    filled: str = context.filled
    assert context.session.id != source and filled == "first words"


def test_a_session_whose_ledger_failed_is_copied_whole_once_it_can_be_written_again(context: FakeContext) -> None:
    context.turn("kept")
    ledger = context.session.ledger
    assert ledger is not None
    ledger.db.run("PRAGMA query_only = ON")
    context.turn("kept in memory")
    assert not context.session.saved
    with pytest.raises(NexusError, match="cannot leave"):
        context.run("fork a copy")
    ledger.db.run("PRAGMA query_only = OFF")
    source = context.session.id
    made = context.run(f"sessions fork {source}").said[-1]
    context.run("fork a copy")
    with the_ledger() as other:
        assert [other.session(one).turns for one in (source, made, context.session.id)] == [2, 2, 2]


def test_a_copy_of_what_was_saved_alone_says_so(context: FakeContext) -> None:
    context.turn("kept")
    ledger, source = context.session.ledger, context.session.id
    ledger.db.run("PRAGMA query_only = ON")
    context.turn("kept in memory")
    ledger.db.run("PRAGMA query_only = OFF")
    with the_ledger() as other:  # a number that the session used in memory
        other.log(source).append(user(other.log(source).last_id() + 1))
    said, made = context.run(f"sessions fork {source}").said[-2:]
    assert "only the saved messages were copied" in said.lower()
    with the_ledger() as other:
        assert other.session(made).turns == 2


def test_a_copy_that_cannot_be_gone_on_with_is_not_left_behind(
    context: FakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    context.turn("words")

    async def refused(*_: object) -> None:
        raise UsageError("limit max_cost", "the price is unknown")

    monkeypatch.setattr(context, "reopen", refused)
    with pytest.raises(NexusError, match="max_cost"):
        context.run("fork a copy")
    with the_ledger() as other:
        assert [info.id for info in other.sessions()] == [context.session.id]


def test_a_name_is_one_line_and_finds_the_session(context: FakeContext) -> None:
    context.turn("words")
    context.run("rename the [/bold] {} %s  page")
    assert "the [/bold] {} %s page" in context.said[-1]
    with the_ledger() as ledger:
        assert ledger.find_session("the [/bold] {} %s page").id == context.session.id
    with pytest.raises(NexusError, match="missing: NAME"):
        context.run("rename")
    with pytest.raises(NexusError, match=r"/rename x+….*at most 100"):
        context.run(f"rename {'x' * 101}")


def test_a_session_is_renamed_in_one_way_and_says_its_name(context: FakeContext) -> None:
    context.turn("words")
    for line in ("rename two words", f"sessions rename {context.session.id} 'two words'"):
        assert context.run(line).said[-1] == 'Renamed to "two words".'
        assert context.reported == {"version": 1, "ids": [context.session.id], "message": 'renamed to "two words".'}


def test_an_export_takes_the_options_of_the_shell_and_another_session(context: FakeContext, tmp_path: Path) -> None:
    context.turn("the first words")
    first = context.session.id
    context.run("rename first").run("clear").turn("the second words")
    for line, name, words in (
        ("export --jsonl -o open.txt", "open.txt", "the second words"),
        ("export --format md", "", "the second words"),
        (f"export {first}", "", "the first words"),
        ("export first jsonl told.txt", "told.txt", "the first words"),
        ("sessions export first md told.md", "told.md", "the first words"),
    ):
        path = Path(context.run(line).said[-1].removeprefix("Written to "))
        assert words in path.read_text() and (path.name == name or not name) and path.parent == tmp_path, line
        assert context.reported is not None and context.reported["file"] == str(path), line
    for line, why in (
        ("export md --html", "several formats: html, md"),
        ("export md a.md -o b.md", "two files: a.md, b.md"),
        ("export other -o c.md", "no such session"),
        ("sessions export other name", "no such session"),
        ("sessions export other.md", "no such session"),
        ("export -o", "the value is missing"),
    ):
        with pytest.raises(NexusError, match=why):
            context.run(line)
    assert not {"a.md", "b.md", "c.md", "other name", "other.md"} & {path.name for path in tmp_path.iterdir()}


@pytest.mark.matrix
def test_exports_never_write_over_a_file(context: FakeContext, tmp_path: Path) -> None:
    context.turn("words\n```\nin a fence\n```")
    lines = ("export", "export md", "export .")
    paths = [Path(context.run(line).said[-1].removeprefix("Written to ")) for line in lines]
    assert len({*paths}) == 3 and all(path.parent == tmp_path for path in paths) and paths[0].suffix == ".md"
    assert [path.stem.removeprefix(paths[0].stem) for path in paths] == ["", "-2", "-3"]
    assert len({path.read_text() for path in paths}) == 1
    context.run("export notes.jsonl").run("export notes.jsonl").run("export jsonl other.txt").run("export md x.y.md")
    assert {"notes.jsonl", "notes-2.jsonl", "other.txt", "x.y.md"} <= {path.name for path in tmp_path.iterdir()}
    for line in (tmp_path / "other.txt").read_text().splitlines():
        assert json.loads(line)["type"] in ("session", "entry", "drop")


@pytest.mark.matrix
def test_a_word_that_is_no_format_is_no_file_either(context: FakeContext, tmp_path: Path) -> None:
    context.turn("words")
    (tmp_path / "folder").mkdir()
    for word in ("pdf", "docx", "JSON"):
        with pytest.raises(NexusError, match="must be one of md, jsonl"):
            context.run(f"export {word}")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == []
    for line, made in (("MD notes", "notes"), ("./pdf", "pdf"), ("folder", "folder/")):
        assert made in context.run(f"export {line}").said[-1]


@pytest.mark.matrix
def test_markdown_has_every_word_and_jsonl_everything(context: FakeContext, tmp_path: Path) -> None:
    context.provider.script = lambda request: (
        [("bash", {"command": "echo '```'; echo out"})] if len(request.messages) == 2 else "done ```x```"
    )
    context.run("permissions all").turn("please `run` it")
    context.run("export md a.md").run("export jsonl a.jsonl")
    text = (tmp_path / "a.md").read_text()
    heads = "# please `run` it", "## You", "## Assistant", "**bash** (c2a)", "## Result of bash (c2a)"
    for part in (*heads, "out", "done ```x```"):
        assert part in text
    assert "\n````\n```\nout" in text, "output cannot end its fence"
    head, *entries = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert head["id"] == context.session.id and [e["kind"] for e in entries] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert entries[1]["calls"][0]["arguments"] == {"command": "echo '```'; echo out"}


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["no/such/folder/a.md", "a\x00b.md", "x" * 300 + ".md"])
def test_a_file_that_cannot_be_is_one_line(context: FakeContext, tmp_path: Path, name: str) -> None:
    context.turn("words")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(NexusError, match="cannot be written"):
        context.run(f"export {name}")
    assert sorted(tmp_path.iterdir()) == before


def test_an_export_has_what_the_ledger_could_not_save(context: FakeContext, tmp_path: Path) -> None:
    context.turn("saved words")
    assert context.session.ledger is not None
    fail_writes(context.session.ledger)
    context.turn("words that exist in this process alone")
    context.run("export md a.md").run("export a.html").run("export a.jsonl").run("export claude a.claude")
    for name in ("a.md", "a.html", "a.jsonl", "a.claude"):
        text = (tmp_path / name).read_text()
        assert "saved words" in text and "words that exist in this process alone" in text, name


def test_a_drop_is_exported_with_its_text(context: FakeContext, tmp_path: Path) -> None:
    context.turn("long " * 20_000)
    context.run("export all.jsonl")
    drops = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()][-1:]
    assert drops[0]["type"] == "drop" and drops[0]["text"] == "long " * 20_000


@pytest.mark.matrix
def test_compact_tells_how_it_went_and_takes_instructions(context: FakeContext) -> None:
    context.run("compact")
    assert isinstance(context.fed[-1], CompactionDone) and not context.fed[-1].ok
    for number in range(8):
        context.turn(f"{number} " + "some words to sum up " * 60)
    context.provider.script = lambda request: "Goal: a summary. Next: more."
    used = context.session.status().used
    context.run("compact keep the [/bold] names")
    done = context.fed[-1]
    assert isinstance(done, CompactionDone) and done.ok and done.after < done.before
    assert "keep the [/bold] names" in json.dumps(context.provider.seen[-1])
    assert context.session.status().used < used
    context.run("cost")
    kinds = {row["name"]: row["requests"] for row in context.shown[-1][1]["kinds"]}
    assert kinds == {"conversation": 8, "compaction": 1}


def test_status_names_the_session_its_level_and_the_version_of_nexus(context: FakeContext) -> None:
    form, value = context.run("status").shown[-1]
    rows = [line.split(None, 1) for line in find_form(form)(value, 100).splitlines()]
    assert rows[:3] == [["version", f"nexus {__version__}"], ["session", context.session.id], ["level", "ask"]]


@pytest.mark.matrix
def test_what_is_open_goes_on(context: FakeContext) -> None:
    for _ in range(2):
        with pytest.raises(NexusError, match="no turn was interrupted"):
            context.run("continue")
        context.turn("words")
    assert not context.started
    context.provider.script = lambda request: (_ for _ in ()).throw(NexusError("network", "lost", "gone"))
    assert not context.turn("unanswered").outcome.ok
    context.run("continue")
    assert context.started == [""]
    context.run("timeline")
    assert [row["text"] for row in context.shown[-1][1]["rows"] if row["kind"] == "command"] == ["/continue"]


def test_doctor_checks_the_model_of_the_session(context: FakeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXUS_MODEL", "openai/other")
    monkeypatch.setenv("OPENAI_API_BASE", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.setattr(probe, "_candidates", lambda project, abi: [])
    context.run("doctor")
    assert context.shown[-1][1]["model"] == MODEL
