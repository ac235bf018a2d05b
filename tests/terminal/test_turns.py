"""What a person does while it works: say more, take it back, stop it, answer it, and go on a hundred times."""

from __future__ import annotations

import time
from pathlib import Path
from shlex import quote
from typing import Any

import pytest
from search import sample
from terminal.repl import MARK, PATIENT, Opens, Repl, everywhere
from terminal.stories import call
from terminal.terminal import ENTER, ESCAPE, NEXUS, PATIENCE, ctrl
from ui.screen.test_key_table import bytes_of, rows_of_table


def gone(mark: str, seconds: float = PATIENCE) -> bool:
    """No process of this machine has `mark` on its command line any more."""
    limit = time.monotonic() + seconds
    while everywhere(mark):
        if time.monotonic() > limit:
            return False
        time.sleep(0.05)
    return True


def begun(mark: str, made: Repl) -> None:
    made.wait_for(lambda terminal: everywhere(mark), 120)


def stopped(made: Repl, times: int) -> None:
    """Wait until so many turns have ended as interrupted ones."""
    made.wait_for(lambda terminal: made.times("Interrupted.") == times, 120)
    made.idle()


def sent(made: Repl, number: int = -1) -> str:
    """The messages of a request as text."""
    return str(made.server.requests[number].body["messages"])


def test_enter_steers_and_the_words_are_delivered_after_the_tool_calls(repl: Opens) -> None:
    waits = f"for i in $(seq 600); do [ -e go ] && break; sleep 0.1; done; echo woke  # {MARK}"
    made = repl([call("bash", command=waits), "done"], arguments=("--allow", "all"))
    made.say("go", ends=False)
    begun(MARK, made)
    made.send("use the other file\r")
    made.wait_for("sending after this step: use the other file")
    (made.place.folder / "go").touch()
    made.wait_for("done")
    made.idle()
    assert len(made.server.requests) == 2
    messages = made.server.requests[1].body["messages"]
    assert [message["role"] for message in messages[-2:]] == ["tool", "user"]
    assert "use the other file" in str(messages[-1]) and "woke" in str(messages[-2])
    assert made.times("use the other file") == 1


def test_escape_stops_the_turn_then_enter_sends_and_twice_edits_the_last_message(repl: Opens) -> None:
    script = [{"text": "half of an answer that never ends, " * 40, "pace": 0.05}, "second", "third"]
    made = repl(script, bug=PATIENT)
    made.say("first words", ends=False)
    made.wait_for("half of an answer")
    made.wait_for("esc to stop")
    made.send("typed meanwhile" + ESCAPE)
    stopped(made, 1)
    assert any(line.endswith("> typed meanwhile") for line in made.lines())
    made.say("")
    made.wait_for("second")
    made.send(ESCAPE)
    made.wait_for("press Esc again to edit an earlier message")
    made.send(ESCAPE)
    made.wait_for("Go back to which message?")
    made.send(ESCAPE)
    made.wait_for(lambda one: "Go back" not in one.picture())
    made.send(ESCAPE)
    made.wait_for("press Esc again")
    made.send(ESCAPE)
    made.wait_for("Go back to which message?")
    made.send(ENTER)
    made.wait_for("> typed meanwhile")
    made.wait_for("Files are not changed")
    made.say(" or later")
    made.wait_for("third")
    messages = [
        message["content"] for message in made.server.requests[-1].body["messages"] if message["role"] == "user"
    ]
    assert [text.split("\n")[-1] for text in messages] == ["first words", "typed meanwhile or later"]


def test_ctrl_c_twice_leaves_no_child_and_no_half_written_file(repl: Opens) -> None:
    text = "0123456789\n" * 60_000
    command = f"sleep 97531.{MARK} & sleep 97532.{MARK}; wait"
    made = repl(
        [
            {"calls": [{"name": "write_file", "arguments": {"path": "big.txt", "content": text}}], "fragment": 0},
            call("bash", command=command),
        ],
        arguments=("--allow", "all"),
    )
    made.say("go", ends=False)
    begun(f"sleep 97531.{MARK}", made)
    made.send(ctrl("c") * 2)
    assert gone(MARK)
    made.idle()
    left = {path.name: path.read_text() for path in made.folder.iterdir() if path.is_file()}
    assert left == {"big.txt": text}
    made.send(ctrl("u"))
    made.say("still there?")
    made.wait_for("answer (3)")


def test_a_file_is_whole_or_absent_wherever_ctrl_c_falls(repl: Opens) -> None:
    text = "0123456789\n" * 20_000

    def write(body: Any) -> dict[str, Any]:
        path = f"big{sum(message['role'] == 'user' for message in body['messages'])}.txt"
        return {"calls": [{"name": "write_file", "arguments": {"path": path, "content": text}}], "fragment": 0}

    made = repl(write, arguments=("--allow", "all"))
    for number in range(6):
        before = len(made.server.requests)
        made.say(f"go {number}", ends=False)
        made.requested(before + 1)
        time.sleep(number * 0.03)
        made.send(ctrl("c"))
        stopped(made, number + 1)
        assert all(path.read_text() == text for path in made.folder.iterdir())


def test_the_question_shows_the_blanks_and_the_hidden_characters_of_a_command(repl: Opens) -> None:
    made = repl([call("bash", command="touch 'x   y' a\u034fb \u2764\ufe0f"), "As you say."])
    made.say("mend it", ends=False)
    made.asked_about("bash")
    made.wait_for(lambda one: any("touch 'x   y' a<U+034F>b \u2764<U+FE0F>" in line for line in one.lines()))


@pytest.mark.parametrize(
    ("columns", "term"), sample([(60, "xterm-256color"), (100, "dumb"), (160, "xterm-256color")], 3)
)
def test_several_calls_of_a_step_are_one_list_and_a_level_answers_what_it_allows(
    repl: Opens, columns: int, term: str
) -> None:
    calls = [
        {"name": "bash", "arguments": {"command": "echo one > made"}},
        {"name": "write_file", "arguments": {"path": "b.txt", "content": "two\n"}},
        {"name": "bash", "arguments": {"command": "cat made | tee copy"}},
        {"name": "bash", "arguments": {"command": "echo never > never"}},
    ]
    made = repl([{"calls": calls}, "well then"], columns=columns, rows=40, env={"TERM": term})
    made.say("go", ends=False)
    made.asked_about("1 of 4  bash echo one > made" if columns > 60 else "1 of 4")
    assert [made.times(f"{number} {name}") for number, name in ((1, "bash"), (2, "write"), (3, "bash"))] == [1] * 3
    assert made.times("+ two") == 1
    dumb = term == "dumb"
    made.send("y\r" if dumb else "\x1b[Z")
    if not dumb:
        made.wait_for("edit")
        made.send("y\r")
    made.asked_about("2 of 4" if dumb else "3 of 4")
    if dumb:
        made.send("y\r")
        made.asked_about("3 of 4")
    made.send("y\r")
    made.asked_about("4 of 4")
    assert not (made.folder / "made").exists(), "nothing runs before all is answered"
    made.send("not that one\r")
    made.wait_for("well then")
    made.idle()
    assert sorted(path.name for path in made.folder.iterdir()) == ["b.txt", "copy", "made"]
    assert "Declined: not that one" in sent(made) and "one\\n" in sent(made)
    assert made.times("+ two") == 1


def test_words_entered_at_the_very_end_of_a_turn_are_answered(repl: Opens) -> None:
    made = repl()
    made.say("word 0 ", ends=False)
    for number in range(1, 60):
        made.requested(number)
        assert made.server.wait_for(lambda server: all(one.done for one in server.requests), 120)
        time.sleep(number % 10 * 0.004)
        made.send(f"word {number} \r")
    made.requested(60)
    made.idle()
    said = [message["content"] for message in made.server.requests[-1].body["messages"] if message["role"] == "user"]
    assert [text.split()[-1] for text in said] == [str(number) for number in range(60)]


@pytest.mark.matrix
def test_a_hundred_turns_in_one_repl(repl: Opens) -> None:
    made = repl(bug="import nexus_cli.ui.screen.redraw as redraw\nredraw.RATE = 100\n")
    for number in range(1, 101):
        made.send(f"turn {number}\r")
        made.wait_for(f"answer ({number})")
    made.idle()
    shown = made.scrollback()
    assert [line.split("(")[1] for line in shown if line.startswith("answer (")] == [f"{n})" for n in range(1, 101)]
    assert len(made.server.requests) == 100
    assert all(sum(line.endswith(f" turn {number}") for line in shown) == 1 for number in range(1, 101))


def test_a_shell_line_is_shared_and_a_private_one_is_not(repl: Opens) -> None:
    made = repl()
    made.send("!echo shared-$((40+2))\r")
    made.wait_for("shared-42")
    made.send("!!echo private-$((40+2))\r")
    made.wait_for("private-42")
    made.idle()
    made.say("what did it print?")
    assert "shared-42" in sent(made) and "private-42" not in sent(made)
    made.send("!exit 3\r")
    made.wait_for("exit status 3")
    made.idle()
    made.send("/timeline\r")
    made.wait_for("command: !exit 3: exit 3")
    assert "command: !echo shared-$((40+2)): exit 0" in made.text and "!echo private-$((40+2)):" not in made.text
    made.send("/export out.md\r")
    made.wait_for("Written to")
    assert "!exit 3: exit 3" in (made.folder / "out.md").read_text()


def test_in_the_pager_every_key_of_the_table_is_the_pagers(repl: Opens, tmp_path: Path) -> None:
    keys = "".join(bytes_of(name) for name, _ in rows_of_table())
    pager = tmp_path / "pager"
    reads = f"dd bs=1 count={len(keys)} if=/dev/tty of=$0.keys 2>/dev/null"
    pager.write_text(f"#!/bin/sh\nstty raw -echo </dev/tty\necho paging\n{reads}\n")
    pager.chmod(0o755)
    made = repl(env={"PAGER": str(pager)})
    made.send("!seq 200\r")
    made.wait_for("attached: output of `seq 200`")
    made.send(ctrl("o"))
    made.wait_for("paging")
    made.send(keys)
    made.say("hello")
    assert (tmp_path / "pager.keys").read_bytes() == keys.encode()
    assert len(made.server.requests) == 1 and "hello" in sent(made)


def test_a_shell_line_of_the_person_may_change_the_settings(repl: Opens) -> None:
    made = repl()
    made.send(f"!{quote(str(NEXUS))} config set effort low\r")
    made.wait_for("set effort in ")
    assert 'effort = "low"' in (made.place.nexus_home / "config" / "config.toml").read_text()


def test_the_project_is_not_touched_by_looking(repl: Opens) -> None:
    made = repl()
    made.say("hello")
    assert list(Path(made.folder).iterdir()) == []
