"""`nexus space open`: two people at two terminals, a pipe, narrow and dumb terminals, and the ledger beside them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from program.nursery import born
from program.stage import until
from search import sample
from terminal.repl import Opens, Place
from terminal.terminal import TAB, Terminal, ctrl

from nexus_cli.core.run import AGENT, DONE, HUMAN, LONGEST_MESSAGE, Run, Wait
from nexus_cli.ledger import Ledger

AT = "2026-02-18T15:06:55.000Z"
ME = '[spaces]\nname = "Husam"\n'
OPEN = ("space", "open", "Project Alpha")


@pytest.fixture
def here(places: Callable[..., Place]) -> Place:
    made = places()
    made.settings(ME)
    return made


@pytest.fixture
def ledger(here: Place) -> Iterator[Ledger]:
    """The ledger of the place, with a space of two people and an agent, and a message that Husam has read."""
    made = Ledger.open(here.nexus_home / "data" / "ledger.db")
    husam, sarah = (made.spaces.entity(name, HUMAN) for name in ("Husam", "Sarah"))
    space = made.spaces.create("Project Alpha", AT, members=[husam, sarah, made.spaces.entity("Ana", AGENT)])
    post(made, "Sarah", "an old message")
    made.spaces.mark_seen(space.key, husam.key, 1)
    yield made
    made.close()


def post(ledger: Ledger, name: str, text: str) -> None:
    space, who = ledger.spaces.find("Project Alpha"), ledger.spaces.find_entity(name)
    assert who is not None
    ledger.spaces.post(space, who, text, AT)


def said(ledger: Ledger) -> list[str]:
    return [f"{one.sender.name}: {one.text}" for one in ledger.spaces.read(ledger.spaces.find("Project Alpha"))]


def test_two_people_see_each_other_live(here: Place, ledger: Ledger, repl: Opens) -> None:
    post(ledger, "Sarah", "and a new one")
    husam = repl(at=here, arguments=OPEN)
    husam.wait_for("and a new one")
    lines = husam.scrollback()
    marks = ("old", "- new -", "a new one")
    old, line, new = (next(at for at, row in enumerate(lines) if text in row) for text in marks)
    assert old < line < new and "Husam, Sarah, Ana (agent)" in lines[0]
    sarah = repl(at=here, arguments=(*OPEN, "--as", "Sarah"))
    husam.send("shall we ship?\r")
    for one in (husam, sarah):
        one.wait_for("Husam: shall we ship?")
    sarah.send("not \x1b\ryet\r")
    for one in (husam, sarah):
        one.wait_for("  yet")
        assert one.times("shall we ship?") == 1
    assert said(ledger)[-2:] == ["Husam: shall we ship?", "Sarah: not \nyet"]
    seen = [ledger.spaces.seen(ledger.spaces.find("Project Alpha"), one) for one in people(ledger)]
    assert seen == [4, 4], "what was shown is read"
    husam.send("/leave\r")
    assert husam.status() == 0
    sarah.send(ctrl("d"))
    assert sarah.status() == 0
    assert [one.name for one in ledger.spaces.find("Project Alpha").members] == ["Husam", "Sarah", "Ana"]


def people(ledger: Ledger) -> list[Any]:
    return [one for one in ledger.spaces.find("Project Alpha").members if one.kind == HUMAN]


def status_line(made: Terminal) -> str:
    return [line for line in made.lines() if line][-1]


def test_the_status_line_says_who_works_and_who_waits(here: Place, ledger: Ledger, repl: Opens) -> None:
    space = ledger.spaces.find("Project Alpha")
    key = ledger.runs.queue(
        "space_message", "x", {}, {}, AT, entity=space.members[2].key, space=space.key, cause="a test"
    )
    assert key is not None
    run = ledger.runs.claim(key, "elsewhere:1", 600.0, AT)
    # Both before the program is there: it takes up what is queued, and what is running and held by nobody.
    assert run is not None and ledger.lock(run.id)
    made = repl(at=here, arguments=OPEN)
    made.wait_for("Ana is working...")
    ledger.runs.wait(
        run,
        Wait(
            "reply",
            'a reply of Husam in "Project Alpha"',
            {
                "space": space.key,
                "message": 99,
                "from": [],
                "sender": 3,
            },
        ),
        AT,
    )
    made.wait_for("Ana is waiting for a reply of Husam")
    assert 'in "Project' not in status_line(made)
    ledger.runs.cancel(key, AT)
    made.wait_for(lambda one: status_line(one) == "Project Alpha")


def test_names_are_completed_and_commands_stay_here(here: Place, ledger: Ledger, repl: Opens) -> None:
    (here.folder / "sarcasm.txt").write_text("")
    made = repl(at=here, arguments=OPEN)
    made.send("@sar")
    made.wait_for("> Sarah")
    made.send(TAB + "look\r")
    made.wait_for("Husam: @Sarah look")
    made.send("/who\r")
    made.wait_for("Husam, Sarah, Ana (agent)", back=True)
    made.send("/compact\r")
    made.wait_for("is not a command here")
    assert said(ledger)[-1] == "Husam: @Sarah look"


def test_foreign_text_reaches_the_terminal_harmless(here: Place, ledger: Ledger, repl: Opens) -> None:
    made = repl(at=here, arguments=OPEN)
    post(ledger, "Sarah", "\x1b]0;owned\x07\x1b[2J\u202etxt.exe")
    made.wait_for("txt.exe")
    assert "owned" not in made.told and "an old message" in made.text and "\u202e" not in made.text


def test_of_a_long_message_the_beginning_is_shown(here: Place, ledger: Ledger, repl: Opens) -> None:
    made = repl(at=here, arguments=OPEN)
    post(ledger, "Sarah", "x" * 20_000)
    made.wait_for("12,000 more characters")


def test_who_is_removed_hears_so_and_leaves(here: Place, ledger: Ledger, repl: Opens) -> None:
    made = repl(at=here, arguments=OPEN)
    ledger.spaces.leave(ledger.spaces.find("Project Alpha"), people(ledger)[0])
    made.wait_for("You are no longer in Project Alpha.", back=True)
    assert made.status() == 0


def test_what_cannot_be_posted_comes_back_into_the_box(here: Place, ledger: Ledger, repl: Opens) -> None:
    made = repl(at=here, arguments=OPEN)
    made.paste("x" * ((1 << 20) + 1))
    made.send("\r")
    made.wait_for("1,048,577 characters", 120)
    made.wait_for("> [1,048,577 characters]")
    assert len(said(ledger)) == 1


@pytest.mark.matrix
@pytest.mark.parametrize(("columns", "env"), sample([(40, {}), (80, {"NO_COLOR": "1"}), (40, {"TERM": "dumb"})], 3))
def test_narrow_colourless_and_dumb_terminals(
    here: Place, ledger: Ledger, repl: Opens, columns: int, env: dict[str, str]
) -> None:
    made = repl(at=here, arguments=OPEN, columns=columns, rows=24, env=env)
    post(ledger, "Sarah", "a word that is followed by many more so that the line has to be folded somewhere")
    made.wait_for("folded")
    assert columns == 80 or "that the line" in made.text, "lines end between words"
    made.send("mine\r")
    made.wait_for(lambda one: said(ledger)[-1] == "Husam: mine" and made.times("mine"))
    made.wait_quiet(0.3)
    assert made.times("mine") == 1, "where the terminal echoes what is typed it is not shown twice"
    if env.get("TERM") == "dumb":
        assert b"\x1b" not in made.raw
    if env.get("NO_COLOR"):
        assert b"\x1b[3" not in made.raw
    made.send(ctrl("d"))
    assert made.status() == 0


def test_who_asked_hears_why_an_agent_failed(here: Place, ledger: Ledger, repl: Opens) -> None:
    ana = ledger.spaces.find("Project Alpha").members[2]
    ledger.spaces.entity(ana.name, AGENT, {"folder": str(here.folder / "gone")})
    made = repl(at=here, arguments=OPEN)
    made.send("@Ana look\r")
    made.wait_for("the folder does not exist", back=True)
    assert made.times("Ana failed: ") == 1


def test_a_closed_window_ends_it(here: Place, ledger: Ledger, repl: Opens) -> None:
    made = repl(at=here, arguments=OPEN)
    made.wait_for("an old message")
    made.hang_up()
    assert made.status() == 129


def late(body: Any) -> Any:
    return {"text": "late", "delay": 60}


def test_who_leaves_waits_for_no_agent_and_its_run_goes_on_elsewhere(here: Place, ledger: Ledger, repl: Opens) -> None:
    here.server.load(late)
    # Its runner looks at nothing by itself for an hour: what is posted here wakes it.
    made = repl(at=here, arguments=OPEN, bug="import nexus_cli.runs.runner as r; r.LONGEST_SLEEP = 3600.0\n")
    made.send("@Ana look\r")
    made.requested(1)
    made.wait_for("Ana is working...")
    made.send(ctrl("d"))
    made.wait_for("nexus: run-1 was interrupted. Resume with: nexus runs resume run-1", back=True)
    assert made.status(120) == 0
    (run,) = ledger.runs.due()
    assert run.id == "run-1" and not ledger.runs.get(run.key).has_ended


def piped(here: Place, text: bytes) -> tuple[int, str, str]:
    """`nexus space open` with both streams in pipes: status, stdout, stderr."""
    child = born(
        list(OPEN),
        cwd=here.folder,
        env=here.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = child.communicate(text, timeout=120)
    return child.wait(), out.decode(), err.decode()


def test_in_a_pipe_lines_are_posted_and_the_newest_messages_printed(here: Place, ledger: Ledger) -> None:
    long = "a long\u2028line\f " * 20
    status, out, err = piped(here, f"one\n\n{long}\r\nlast".encode())
    assert (status, err) == (0, "") and "\x1b" not in out
    assert said(ledger)[1:] == ["Husam: one", f"Husam: {long}", "Husam: last"]
    lines = out.splitlines()
    assert "Sarah: an old message" in lines[3] and lines[-1].endswith("Husam: last")
    assert any(line.count("a long") == 20 for line in lines), "no line is folded"


@pytest.mark.matrix
def test_in_a_pipe_an_agent_that_failed_and_another_encoding_are_told_once(here: Place, ledger: Ledger) -> None:
    ana = ledger.spaces.find("Project Alpha").members[2]
    ledger.spaces.entity(ana.name, AGENT, {"folder": str(here.folder / "gone")})
    status, out, err = piped(here, b"@Nobody caf\xe9\n@Nobody\n@Ana look\n")
    assert status == 0 and "caf\xe9" in out
    encoding, nobody, failed = err.splitlines()
    assert "cp1252" in encoding and "no member @Nobody" in nobody
    assert "run-1 failed" in failed and "the folder does not exist" in failed


@pytest.mark.matrix
def test_in_a_pipe_a_line_that_cannot_be_posted_ends_it_after_the_runs_of_those_before(
    here: Place, ledger: Ledger
) -> None:
    here.server.load(["I looked."])
    status, out, err = piped(here, b"@Ana look\n" + b"x" * (LONGEST_MESSAGE + 1) + b"\nbehind it\n")
    assert status == 2 and err.startswith("nexus: the message is too long: ") and err.count("\n") == 1
    assert said(ledger)[1:] == ["Husam: @Ana look"] and out.rstrip().endswith("@Ana look")
    (run,) = ledger.runs.list_runs([DONE])
    assert run.last_words == "I looked."


def working(ledger: Ledger, name: str = "Ana", text: str = "@Ana look") -> Run:
    """A run of an agent that another process drives."""
    post(ledger, "Husam", text)
    agent = ledger.spaces.find_entity(name)
    assert agent is not None
    (run,) = [one for one in ledger.runs.due() if one.entity == agent.key]
    claimed = ledger.runs.claim(run.key, "elsewhere:1", 600.0, AT)
    assert claimed is not None and ledger.lock(claimed.id)
    return claimed


@pytest.mark.parametrize(("key", "answer"), sample([("y", "yes"), ("n", "no")], 2))
def test_an_approval_is_given_in_the_space_with_one_key(
    here: Place, ledger: Ledger, repl: Opens, key: str, answer: str
) -> None:
    run = working(ledger)
    made = repl(at=here, arguments=OPEN)
    made.wait_for("Ana is working...")
    asked = {"call": "c1", "what": "bash rm -r build", "why": "it deletes", "detail": ""}
    ledger.runs.wait(run, Wait("approval", "approval: bash rm -r build", {"questions": [asked]}), AT)
    made.wait_for("Ana (run-1): Run this?")
    made.wait_quiet(1.6)  # a key that comes at once belongs to the box
    made.send(key)
    assert until(lambda: bool(ledger.runs.signals(run.key)))
    (signal_,) = ledger.runs.signals(run.key)
    assert signal_.kind == "approval" and signal_.value == {
        "answers": {"c1": {"answer": answer, "text": "", "scope": None, "by": "Husam"}}
    }
    made.wait_for(f"Ana (run-1): you said {answer}", back=True)


def test_the_status_line_names_only_those_whose_reply_is_missing(here: Place, ledger: Ledger, repl: Opens) -> None:
    run = working(ledger)
    space = ledger.spaces.find("Project Alpha")
    husam, sarah, ana = space.members
    question = ledger.spaces.post(space, ana, "@Husam @Sarah which one?", AT, waits=True).message.key
    value = {"space": space.key, "message": question, "from": [husam.key, sarah.key], "sender": ana.key}
    ledger.runs.wait(run, Wait("reply", 'a reply of Husam and Sarah in "Project Alpha"', value), AT)
    made = repl(at=here, arguments=OPEN)
    made.wait_for("Ana is waiting for you and Sarah")
    made.send("the first\r")
    made.wait_for("Ana is waiting for a reply of Sarah")
    assert "Ana is waiting for you" not in status_line(made)


def test_esc_stops_who_works_and_stop_ends_what_waits_too(here: Place, ledger: Ledger, repl: Opens) -> None:
    waiting = working(ledger)
    ledger.runs.wait(waiting, Wait("time", "the time", {}, 4e9), AT)
    run = working(ledger, text="@Ana again")
    made = repl(at=here, arguments=OPEN)
    made.wait_for("Ana is working...")
    made.send("\x1b")
    made.wait_for("stopped 1 run: run-2", back=True)
    assert ledger.runs.get(run.key).state == "cancelled"
    made.wait_for("Ana is waiting for the time")
    made.send("/stop Zoe\r")
    made.wait_for("/stop needs an agent name: Ana", back=True)
    made.send("/stop\r")
    made.wait_for("stopped 1 run: run-1", back=True)
    assert ledger.runs.get(waiting.key).state == "cancelled"


def test_a_muted_agent_is_started_by_nothing_that_is_said_here(here: Place, ledger: Ledger, repl: Opens) -> None:
    made = repl(at=here, arguments=OPEN)
    made.send("/mute ana\r")
    made.wait_for("Ana is muted here", back=True)
    made.send("/who\r")
    made.wait_for("Ana (agent, muted)", back=True)
    made.send("@Ana look\r")
    made.wait_for("Ana is muted here. To unmute: /unmute Ana", back=True)
    assert "no more agents were started" not in made.text
    assert not ledger.runs.list_runs()
    made.send("/unmute ana\r")
    made.wait_for("Ana is no longer muted", back=True)
    post(ledger, "Sarah", "@Ana look")
    assert len(ledger.runs.list_runs()) == 1


def test_the_keys_that_are_listed_are_those_that_work_here(here: Place, ledger: Ledger, repl: Opens) -> None:
    made = repl(at=here, arguments=OPEN)
    made.wait_for("an old message")
    made.send("?")
    made.wait_for("stops running agents")
    assert not any(word in made.text for word in ("Shift+Tab", "!COMMAND", "@FILE", "Ctrl+V", "Ctrl+T"))
    made.send("x")
    made.wait_for("> x")
    made.send("\x7f/help\r")
    for name in ("approve", "mute", "stop", "who", "leave"):
        made.wait_for(f"/{name}", back=True)
