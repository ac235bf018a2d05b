"""Commands that open, leave, copy, name and write out sessions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands.conftest import FakeDesk
from session.played import MODEL, the_ledger

from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import CompactionDone
from nexus_cli.session.reports import last
from nexus_cli.ui.reports import FORMS


def test_clear_begins_a_new_session_and_tells_how_to_get_back(desk: FakeDesk) -> None:
    desk.turn("words")
    before = desk.session.id
    desk.run("clear")
    assert desk.session.id != before and before in desk.said[-1]
    assert desk.session.model == MODEL and desk.turn("new").outcome.ok
    assert len(desk.provider.seen[-1]) == 2, "the new session begins empty"
    desk.run(f"resume {before[:20]}")
    assert desk.session.id == before and desk.turn("back").outcome.ok
    assert "words" in json.dumps(desk.provider.seen[-1])


def test_clear_of_a_session_without_words_leaves_nothing_behind(desk: FakeDesk) -> None:
    desk.run("clear").run("clear")
    assert not desk.said
    with the_ledger() as ledger:
        assert len(ledger.sessions()) == 1


def test_resume_offers_the_other_sessions_of_the_folder(desk: FakeDesk, tmp_path: Path) -> None:
    desk.run("resume")
    assert "no other session" in desk.said[-1] and not desk.offered
    desk.turn("first words of mine")
    first = desk.session.id
    desk.run("clear").turn("second")
    elsewhere = FakeDesk(tmp_path.parent, desk.provider)
    elsewhere.turn("elsewhere")
    desk.run("resume")
    assert [choice.key for choice in desk.offered] == [first] and "first words" in desk.offered[0].label
    second = desk.session.id
    assert desk.session.id == second, "picking nothing changes nothing"
    desk.pick = lambda choices: choices[0].key
    desk.run("resume")
    assert desk.session.id == first
    desk.run(f"resume {first}")
    assert "already" in desk.said[-1]
    for nobody in ("nope", "%", "[/bold]"):
        with pytest.raises(NexusError, match="no session"):
            desk.run(f"resume {nobody}")
    assert desk.session.id == first


def test_a_session_that_another_process_works_in_is_not_taken(desk: FakeDesk, tmp_path: Path) -> None:
    other = FakeDesk(tmp_path, desk.provider)
    other.turn("mine")
    desk.turn("words")
    before = desk.session.id
    with pytest.raises(NexusError, match="open elsewhere"):
        desk.run(f"resume {other.session.id}")
    assert desk.session.id == before and desk.turn("still here").outcome.ok


def test_sessions_lists_this_folder_or_all(desk: FakeDesk, tmp_path: Path) -> None:
    desk.turn("here")
    other = FakeDesk(tmp_path.parent, desk.provider)
    other.turn("there")
    desk.run("sessions").run("sessions --all")
    here, everywhere = ([s["id"] for s in value["sessions"]] for _, value in desk.shown)
    assert here == [desk.session.id] and set(everywhere) == {desk.session.id, other.session.id}


def test_a_fork_goes_on_beside_its_source(desk: FakeDesk) -> None:
    with pytest.raises(NexusError, match="nothing was said"):
        desk.run("fork")
    desk.turn("shared words")
    source = desk.session.id
    desk.run("fork a copy")
    assert desk.session.id != source and source in desk.said[-1]
    desk.turn("only in the copy")
    assert desk.provider.seen[-1][: len(desk.provider.seen[0])] == desk.provider.seen[0], "the prefix is shared"
    with the_ledger() as ledger:
        assert ledger.session(source).entries == 2 and ledger.session(desk.session.id).entries == 4
        assert ledger.find_session("a copy").id == desk.session.id


def test_a_session_whose_ledger_failed_is_not_copied_when_it_can_be_written_again(desk: FakeDesk) -> None:
    desk.turn("kept")
    ledger = desk.session.ledger
    assert ledger is not None
    ledger._db.run("PRAGMA query_only = ON")
    desk.turn("kept in memory")
    assert not desk.session.saved
    ledger._db.run("PRAGMA query_only = OFF")
    with pytest.raises(NexusError, match="cannot be left"):
        desk.run("fork a copy")
    with the_ledger() as other:
        assert [info.id for info in other.sessions()] == [desk.session.id]


def test_a_copy_that_cannot_be_gone_on_with_is_not_left_behind(
    desk: FakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.turn("words")

    async def refused(*_: object) -> None:
        raise NexusError("usage", "limit max_cost", "the price is unknown")

    monkeypatch.setattr(desk, "reopen", refused)
    with pytest.raises(NexusError, match="max_cost"):
        desk.run("fork a copy")
    with the_ledger() as other:
        assert [info.id for info in other.sessions()] == [desk.session.id]


def test_a_name_is_one_line_and_finds_the_session(desk: FakeDesk) -> None:
    desk.turn("words")
    desk.run("rename the [/bold] {} %s  page")
    assert "the [/bold] {} %s page" in desk.said[-1]
    with the_ledger() as ledger:
        assert ledger.find_session("the [/bold] {} %s page").id == desk.session.id
    with pytest.raises(NexusError, match="no name"):
        desk.run("rename")
    with pytest.raises(NexusError, match="at most 100"):
        desk.run(f"rename {'x' * 101}")


def test_exports_never_write_over_a_file(desk: FakeDesk, tmp_path: Path) -> None:
    desk.turn("words\n```\nin a fence\n```")
    lines = ("export", "export md", "export .")
    paths = [Path(desk.run(line).said[-1].removeprefix("Written to ")) for line in lines]
    assert len({*paths}) == 3 and all(path.parent == tmp_path for path in paths) and paths[0].suffix == ".md"
    assert [path.stem.removeprefix(paths[0].stem) for path in paths] == ["", "-2", "-3"]
    assert len({path.read_text() for path in paths}) == 1
    desk.run("export notes.jsonl").run("export notes.jsonl").run("export jsonl other.txt").run("export md x.y.md")
    assert {"notes.jsonl", "notes-2.jsonl", "other.txt", "x.y.md"} <= {path.name for path in tmp_path.iterdir()}
    for line in (tmp_path / "other.txt").read_text().splitlines():
        assert json.loads(line)["type"] in ("session", "entry", "drop")


def test_a_word_that_is_no_format_is_no_file_either(desk: FakeDesk, tmp_path: Path) -> None:
    desk.turn("words")
    (tmp_path / "folder").mkdir()
    for word in ("pdf", "html", "JSON"):
        with pytest.raises(NexusError, match="formats are md, jsonl"):
            desk.run(f"export {word}")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == []
    for line, made in (("MD notes", "notes"), ("./pdf", "pdf"), ("folder", "folder/")):
        assert made in desk.run(f"export {line}").said[-1]


def test_markdown_has_every_word_and_jsonl_everything(desk: FakeDesk, tmp_path: Path) -> None:
    desk.provider.script = lambda request: (
        [("bash", {"command": "echo '```'; echo out"})] if len(request.messages) == 2 else "done ```x```"
    )
    desk.run("permissions all").turn("please `run` it")
    desk.run("export md a.md").run("export jsonl a.jsonl")
    text = (tmp_path / "a.md").read_text()
    heads = "# please `run` it", "## You", "## Assistant", "**bash** (c2a)", "## Result of bash (c2a)"
    for part in (*heads, "out", "done ```x```"):
        assert part in text
    assert "\n````\n```\nout" in text, "output cannot end its fence"
    head, *entries = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert head["id"] == desk.session.id and [e["kind"] for e in entries] == ["user", "assistant", "tool", "assistant"]
    assert entries[1]["calls"][0]["arguments"] == {"command": "echo '```'; echo out"}


@pytest.mark.parametrize("name", ["no/such/folder/a.md", "a\x00b.md", "x" * 300 + ".md"])
def test_a_file_that_cannot_be_is_one_line(desk: FakeDesk, tmp_path: Path, name: str) -> None:
    desk.turn("words")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(NexusError, match="cannot be written"):
        desk.run(f"export {name}")
    assert sorted(tmp_path.iterdir()) == before


def test_a_drop_is_exported_with_its_text(desk: FakeDesk, tmp_path: Path) -> None:
    desk.turn("long " * 20_000)
    desk.run("export all.jsonl")
    drops = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()][-1:]
    assert drops[0]["type"] == "drop" and drops[0]["text"] == "long " * 20_000


def test_compact_tells_how_it_went_and_takes_instructions(desk: FakeDesk) -> None:
    desk.run("compact")
    assert isinstance(desk.fed[-1], CompactionDone) and not desk.fed[-1].ok
    for number in range(8):
        desk.turn(f"{number} " + "some words to sum up " * 60)
    desk.provider.script = lambda request: "Goal: a summary. Next: more."
    used = desk.session.status().used
    desk.run("compact keep the [/bold] names")
    done = desk.fed[-1]
    assert isinstance(done, CompactionDone) and done.ok and done.after < done.before
    assert "keep the [/bold] names" in json.dumps(desk.provider.seen[-1])
    assert desk.session.status().used < used
    desk.run("cost")
    kinds = {row["name"]: row["requests"] for row in desk.shown[-1][1]["kinds"]}
    assert kinds == {"conversation": 8, "compaction": 1}


def test_what_is_open_goes_on(desk: FakeDesk) -> None:
    for _ in range(2):
        with pytest.raises(NexusError, match="nothing is open"):
            desk.run("continue")
        desk.turn("words")
    assert not desk.started
    desk.provider.script = lambda request: (_ for _ in ()).throw(NexusError("network", "lost", "gone"))
    assert not desk.turn("unanswered").outcome.ok
    desk.run("continue")
    assert desk.started == [""]


def test_the_exchange_of_a_resumed_session_is_drawn(desk: FakeDesk) -> None:
    desk.turn("what was [/bold] said")
    value = last.value(desk.session)
    assert (value["user"], value["assistant"]) == ("what was [/bold] said", "heard: what was [/bold] said")
    assert value["finished"] and not value["open"] and value["turns"] == 1
    text = FORMS["last"](value, 60)
    assert "> what was [/bold] said" in text and "/continue" not in text
