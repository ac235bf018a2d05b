"""The job: "summarize every file of this folder, several at once, and do not pay twice when I have to stop".

The person stops the run in the middle, one file vanishes meanwhile, and the same command goes on where it stopped.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from program.stage import PRICED, QUICK, Done, Stage, calls, clean, stage, until
from search import sample

NEVER: dict[str, Any] = {"text": "...", "fault": {"kind": "stall", "seconds": 500.0, "after": 0}}
PROMPT = "Summarize {} in a line"


class Reader:
    """A model that summarizes the file of its message, and does not answer about those of `slow`."""

    def __init__(self) -> None:
        self.slow: set[str] = set()

    def __call__(self, body: Any) -> dict[str, Any]:
        name = asked(body)
        answer: dict[str, Any] = {"text": f"about {name}"}
        return NEVER if name in self.slow else answer


def asked(body: Any) -> str:
    """The item that a request is about."""
    first = next(str(one["content"]) for one in body["messages"] if one["role"] == "user")
    return str(re.findall(r"(?:Summarize|About)\s+(\S+)", first)[-1])


def counted(place: Stage) -> Counter[str]:
    """The number of requests about each item."""
    return Counter(asked(one.body) for one in place.server.requests)


def lines(done: Done) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.text.splitlines()]


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def place(tmp_path: Path, reader: Reader) -> Iterator[Stage]:
    with stage(tmp_path, reader) as made:
        for number in range(8):
            (made.folder / f"{number}.py").write_text(f"x = {number}\n")
        yield made


FILES = [f"{number}.py" for number in range(8)]


@pytest.mark.parametrize("ending", sample([signal.SIGINT, signal.SIGKILL], 2, 1))
def test_a_stopped_run_goes_on_and_pays_no_item_twice(place: Stage, reader: Reader, ending: int) -> None:
    reader.slow = {"4.py", "5.py"}
    command = ("map", PROMPT, *FILES, "-j", "2", "--resume", "out.jsonl")
    child = place.begin(*command)
    assert place.server.wait_for(lambda server: {"4.py", "5.py"} <= {asked(one.body) for one in server.requests})
    assert until(lambda: (place.folder / "out.jsonl").read_text().count('"ok": true') == 4)
    child.send_signal(ending)
    stdout, stderr = child.communicate(timeout=120)
    if ending == signal.SIGINT:
        assert child.returncode == 130 and stderr.decode().splitlines() == [
            "nexus: stopped after 4 of 8 items.",
            "Resume with: the same command",
        ]
    assert [line["item"] for line in lines(Done(0, stdout, b""))] == FILES[:4]

    (place.folder / "6.py").unlink()
    reader.slow = set()
    done = place.run(*command)
    made = lines(done)
    assert done.status == 3 and [line["item"] for line in made] == FILES
    assert [line["text"] for line in made] == [f"about {name}" if name != "6.py" else "" for name in FILES]
    assert made[6]["error"]["kind"] == "usage" and "6.py" in made[6]["error"]["message"] and not made[6]["ok"]
    assert all(line["ok"] for line in made if line["item"] != "6.py")
    # What the requests cost that a kill cut off, nobody knows.
    unpriced = {"4.py", "5.py"} if ending == signal.SIGKILL else set()
    assert {line["item"] for line in made if line["ok"] and line["cost_usd"] is None} == unpriced
    assert counted(place) == {**dict.fromkeys(FILES[:4], 1), "4.py": 2, "5.py": 2, "7.py": 1}, "two were cut off"
    assert done.told[0] == "nexus: 1 of 8 items failed; first error: 6.py: no such file or directory" and clean(done)

    before = len(place.server.requests)
    (place.folder / "3.py").write_text("changed\n")
    (place.folder / "6.py").write_text("it is back\n")
    again = place.run(*command)
    assert again.status == 0 and len(lines(again)) == 8 and again.told == []
    assert {asked(one.body) for one in place.server.requests[before:]} == {"3.py", "6.py"}, (
        "what changed is asked again"
    )


def test_without_a_resume_file_the_run_names_one_that_has_the_answers(place: Stage, reader: Reader) -> None:
    reader.slow = {"3.py"}  # the last one: the first to begin warms the cache for all others
    child = place.begin("map", PROMPT, *FILES[:4], "-j", "3")
    kept = place.nexus_home / "cache" / "map"
    assert until(lambda: "".join(one.read_text() for one in kept.glob("*")).count('"ok": true') == 3)
    assert place.server.wait_for(lambda server: any(asked(request.body) == "3.py" for request in server.requests))
    child.send_signal(signal.SIGINT)
    stdout, stderr = child.communicate(timeout=120)
    assert child.returncode == 130, stderr.decode()
    assert [line["item"] for line in lines(Done(0, stdout, b""))] == ["0.py", "1.py", "2.py"], "all that was paid for"
    named = re.search(r"Resume with: the same command and --resume (\S+)", stderr.decode())
    assert named is not None
    reader.slow = set()
    done = place.run("map", PROMPT, *FILES[:4], "--resume", named[1])
    assert done.status == 0 and counted(place) == {"0.py": 1, "1.py": 1, "2.py": 1, "3.py": 2}
    whole = place.run("map", PROMPT, "7.py")
    assert whole.status == 0 and len(list(kept.glob("*"))) == 1, "a run that is done leaves no file"


@pytest.mark.matrix
def test_the_steps_of_an_item_that_was_killed_are_not_paid_again(place: Stage) -> None:
    waits = [True]

    def model(body: Any) -> Any:
        if body["messages"][-1]["role"] != "tool":
            return calls(("read_file", {"path": "1.py"}))
        return NEVER if waits[0] else "both are short"

    place.script(model)
    child = place.begin("map", PROMPT, "0.py", "--resume", "r.jsonl")
    assert place.server.wait_for(lambda server: len(server.requests) == 2)
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=120)
    waits[0] = False
    done = place.run("map", PROMPT, "0.py", "--resume", "r.jsonl")
    (line,) = lines(done)
    assert done.status == 0 and line["text"] == "both are short"
    roles = [one.body["messages"][-1]["role"] for one in place.server.requests]
    assert roles == ["user", "tool", "tool"], "the first step is in the session"
    assert place.run("replay").status == 0


@pytest.mark.matrix
def test_items_that_change_their_own_files_are_done_once(place: Stage) -> None:
    """A migration: each item edits its own file; one fails after its edit, and one is killed after it."""
    trouble = {"1.py": {"text": ""}, "2.py": NEVER}

    def model(body: Any) -> Any:
        name = asked(body)
        if body["messages"][-1]["role"] == "tool":
            return trouble.get(name, f"migrated {name}")
        if name == "0.py":
            return calls(("bash", {"command": f"sed -i s/x/y/ {name}"}))
        return calls(("edit_file", {"path": name, "old": "x", "new": "y"}))

    place.script(model)
    words = ("map", PROMPT, *FILES[:4], "--allow", "all", "-j", "1", "--resume", "r.jsonl")
    child = place.begin(*words)
    assert place.server.wait_for(lambda server: len(server.requests) == 6)
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=120)
    trouble.clear()
    done = place.run(*words)
    assert done.status == 0 and [line["text"] for line in lines(done)] == [f"migrated {name}" for name in FILES[:4]]
    assert counted(place) == {"0.py": 2, "1.py": 3, "2.py": 3, "3.py": 2}, "no edit is asked for twice"
    assert place.run(*words).status == 0 and sum(counted(place).values()) == 10, "what is done stays done"
    (place.folder / "3.py").write_text("x = 33\n")
    assert place.run(*words).status == 0 and counted(place)["3.py"] == 4, "a person changed this one"


@pytest.mark.matrix
def test_an_item_that_is_named_twice_is_asked_once_also_if_its_turn_has_edited_its_file_meanwhile(place: Stage) -> None:
    def model(body: Any) -> Any:
        name = asked(body)
        if name == "1.py":
            return {"text": "read", "fault": {"kind": "stall", "seconds": 0.7, "after": 0}}
        if body["messages"][-1]["role"] == "tool":  # the second 0.py is read while this waits
            return {"text": "migrated", "fault": {"kind": "stall", "seconds": 3.0, "after": 0}}
        return calls(("edit_file", {"path": name, "old": "x", "new": "y"}))

    place.script(model)
    done = place.run("map", PROMPT, "0.py", "1.py", "0.py", "--allow", "all", "-j", "2", "--resume", "r.jsonl")
    assert done.status == 0 and done.told == [], "no session is opened twice"
    assert [line["text"] for line in lines(done)] == ["migrated", "read", "migrated"]
    assert lines(done)[2]["cost_usd"] == 0.0 and counted(place) == {"0.py": 2, "1.py": 1}


@pytest.mark.matrix
def test_items_that_change_their_own_files_are_done_once_also_in_sessions_that_are_not_saved(place: Stage) -> None:
    place.script(
        lambda body: (
            "migrated"
            if body["messages"][-1]["role"] == "tool"
            else calls(("edit_file", {"path": "0.py", "old": "x", "new": "y"}))
        )
    )
    words = ("map", PROMPT, "0.py", "--allow", "all", "--no-save", "--resume", "r.jsonl")
    assert place.run(*words).status == 0
    again = place.run(*words)
    assert again.status == 0 and lines(again)[0]["text"] == "migrated" and counted(place) == {"0.py": 2}


def test_an_answer_that_was_not_written_down_is_not_paid_again(place: Stage) -> None:
    assert place.run("map", PROMPT, *FILES, "--resume", "r.jsonl").status == 0
    file = place.folder / "r.jsonl"
    begun = [line for line in file.read_text().splitlines(keepends=True) if '"ok"' not in line]
    file.write_text("".join(begun))  # as if it was killed between the two
    done = place.run("map", PROMPT, *FILES, "--resume", "r.jsonl")
    assert done.status == 0 and [line["text"] for line in lines(done)] == [f"about {name}" for name in FILES]
    assert len(place.server.requests) == 8


def test_every_answer_matches_the_schema(place: Stage) -> None:
    def model(body: Any) -> dict[str, Any]:
        return {"text": "no" if asked(body) == "bad" else json.dumps({"size": len(asked(body))})}

    place.script(model)
    schema = '{"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}'
    done = place.run("map", "About", "--schema", schema, stdin=b"one\nbad\nthree\n")
    assert done.status == 3 and [line["data"] for line in lines(done)] == [{"size": 3}, None, {"size": 5}]
    assert lines(done)[1]["error"]["kind"] == "schema" and lines(done)[1]["text"] == "no"


def test_the_first_item_warms_the_cache_that_the_others_share(place: Stage, reader: Reader) -> None:
    numbers = count()  # whichever item comes first
    place.script(lambda body: "short" if next(numbers) else {"text": "short", "delay": 0.5})
    assert place.run("map", "Rules for all.\nSummarize {}", *FILES, "-j", "8").status == 0
    first, *others = place.server.requests
    assert all(one.at >= first.at + 0.5 for one in others), "the others start once the first reply has begun"
    bodies = [one.body for one in place.server.requests]
    keys = ("tools", "prompt_cache_key")
    assert all(body[key] == bodies[0][key] for body in bodies for key in keys)
    texts = [[str(one["content"]) for one in body["messages"]] for body in bodies]
    assert len({text[0] for text in texts}) == 1
    assert len({text[1].partition(".py")[0][:-1] for text in texts}) == 1


def test_lines_of_stdin_are_items(place: Stage) -> None:
    done = place.run("map", "About", stdin=b"one\r\n\n  \ntwo words\none\r\n")
    assert [line["item"] for line in lines(done)] == ["one", "two words", "one"] and done.status == 0
    assert len(place.server.requests) == 2, "an item that occurs again is not asked again"
    assert [line["cost_usd"] > 0 for line in lines(done)] == [True, True, False]
    kept = ("--resume", "again.jsonl")
    for _ in range(2):  # one after another, and all from the file of the first run
        done = place.run("map", "About", "-j", "1", *kept, stdin=b"same\nsame\nsame\n")
        assert [line["cost_usd"] > 0 for line in lines(done)] == [True, False, False]
    done = place.run("map", "About {}", "-0", "--unordered", stdin=b"a\nb\0\0c\0")
    assert sorted(line["item"] for line in lines(done)) == ["a\nb", "c"]
    nul = place.run("map", "About", stdin=b"o\0ne\n")
    assert nul.status == 0 and any("NUL" in line for line in nul.told), nul
    none = place.run("map", "About", stdin=b"\n")
    assert none.status == 0 and none.text == "" and none.told == ["nexus: stdin has no items; nothing was sent"]


@pytest.mark.matrix
def test_what_is_true_of_every_item_is_said_once(place: Stage) -> None:
    (place.folder / "CLAUDE.md").write_text("See @missing.md\n")
    done = place.run("map", "Summarize {}", *FILES)
    assert done.status == 0 and sum("missing.md" in line for line in done.told) == 1, done.told


def test_a_dollar_limit_holds_over_all_items(place: Stage) -> None:
    done = place.run("map", "About", "--max-cost", "0.03", "-j", "3", stdin=b"".join(b"n%d\n" % n for n in range(9)))
    made = lines(done)
    paid = sum(line["cost_usd"] for line in made)
    asked_for = [line for line in made if line["ok"]]
    assert done.status == 3 and 0 < paid <= 0.03 and 2 <= len(asked_for) < 9 and len(made) == 9
    assert len(place.server.requests) == len(asked_for)
    assert {line["error"]["kind"] for line in made if not line["ok"]} == {"limit"}
    place.settings(QUICK)
    unknown = place.run("map", "About", "--max-cost", "1", stdin=b"a\nb\n")
    assert unknown.status == 2 and unknown.text == "" and "price" in unknown.told[0], unknown


@pytest.mark.matrix
def test_ten_thousand_items_do_not_open_as_many_sessions(place: Stage) -> None:
    many = b"".join(b"n%d\n" % n for n in range(10_000))
    done = place.run("map", "About", "--max-cost", "0.03", "-j", "3", stdin=many)
    assert done.status == 3 and len(lines(done)) == 10_000 and len(place.server.requests) < 9
    again = place.shell("seq 10000 | nexus map About --max-cost 0.03 | head -1")
    assert len(lines(again)) == 1 and b"Traceback" not in again.stderr


def test_an_error_of_every_item_ends_the_run_with_one_line(place: Stage) -> None:
    place.script(lambda body: {"fault": {"status": 401}})
    done = place.run("map", PROMPT, *FILES)
    assert done.status == 2 and done.text == "" and len(place.server.requests) == 1 and clean(done), done


def test_a_provider_that_is_down_ends_the_run_after_a_few_items(place: Stage) -> None:
    place.script(lambda body: {"fault": {"status": 400}})
    one = place.run("map", "About", stdin=b"r\n")
    assert "; first error: r: request failed" in one.told[0], one
    done = place.run("map", "About", "-j", "2", stdin=b"".join(b"n%d\n" % n for n in range(99)))
    assert done.status == 1 and len(lines(done)) < 10 and len(place.server.requests) < 20 and clean(done), done


def test_a_torn_last_line_is_no_result_and_two_runs_do_not_write_one_file(place: Stage, reader: Reader) -> None:
    command = ("map", PROMPT, "0.py", "1.py", "--resume", "r.jsonl", "-j", "1")
    assert place.run(*command).status == 0
    file = place.folder / "r.jsonl"
    file.write_bytes(file.read_bytes()[:-20])
    assert place.run(*command).status == 0
    assert counted(place)["0.py"] == 1
    assert place.run(*command).status == 0 and len(place.server.requests) <= 3
    reader.slow = {"2.py"}
    child = place.begin("map", PROMPT, "2.py", "--resume", "r.jsonl")
    assert place.server.wait_for(lambda server: asked(server.requests[-1].body) == "2.py")
    second = place.run("map", PROMPT, "3.py", "--resume", "r.jsonl")
    assert second.status == 2 and "another process has locked it" in second.told[0] and len(second.told) == 1
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=120)


def test_a_file_that_is_no_resume_file_is_refused_before_an_item_is_paid_twice(place: Stage) -> None:
    printed = place.run("map", "About", stdin=b"a\nb\n")
    (place.folder / "printed.jsonl").write_bytes(printed.stdout)
    (place.folder / "deep").write_bytes(b"[" * 200_000)
    (place.folder / "kinds").write_text('{"item": 1, "ok": 3, "key": 4}\n')
    os.mkfifo(place.folder / "pipe")
    for name in ("printed.jsonl", "deep", "kinds", "pipe"):
        done = place.run("map", "About", "--resume", name, stdin=b"a\nb\n")
        assert done.status == 2 and len(done.told) == 1 and name in done.told[0], done
    both = place.shell("seq 3 | nexus map About --resume both.jsonl > both.jsonl")
    assert both.status == 2 and "stdout is redirected to this file too" in both.told[0], both
    assert len(place.server.requests) == 2 and (place.folder / "printed.jsonl").read_bytes() == printed.stdout


@pytest.mark.matrix
def test_a_resume_file_that_cannot_grow_ends_the_run_with_one_reason(place: Stage) -> None:
    command = "seq 30 | nexus map About -j 2 --no-save --resume r.jsonl"
    done = place.shell(f"export PYTHONDONTWRITEBYTECODE=1; ulimit -f 1; {command} | cat", installed=True)
    made = [line["item"] for line in lines(done)]
    assert done.status == 1 and 0 < len(made) < 30 and clean(done), done
    assert [line.partition(":")[0] for line in done.told] == ["nexus", "nexus", "Resume with"], done
    assert "r.jsonl cannot be written" in done.told[0] and f"stopped after {len(made)} of 30" in done.told[1]
    again = place.shell(command)
    assert again.status == 0 and len(lines(again)) == 30 and len(place.server.requests) <= 30 + 2


def test_a_reader_that_leaves_and_a_full_disk_keep_what_was_paid(place: Stage) -> None:
    head = place.shell(f"nexus map '{PROMPT}' *.py -j 1 --resume r.jsonl | head -1")
    assert len(lines(head)) == 1 and clean(head)
    paid = len(place.server.requests)
    for command in (f"nexus map '{PROMPT}' *.py --resume r.jsonl >&-", "nexus ask hi >&-", "nexus ask --json hi >&-"):
        closed = place.shell(command, installed=True)
        assert closed.status == 1 and len(closed.told) == 1 and "stdout cannot be written" in closed.told[0]
    assert len(place.server.requests) == paid
    full = place.shell(f"nexus map '{PROMPT}' *.py --resume r.jsonl >/dev/full")
    assert full.status == 1 and "stdout cannot be written" in full.told[0] and clean(full), full
    assert place.run("map", PROMPT, *FILES, "--resume", "r.jsonl").status == 0
    assert counted(place)["0.py"] == 1 and sum(counted(place).values()) <= 8 + 4


@pytest.mark.matrix
def test_few_open_files_allow_fewer_items_at_once_and_none_lacks_its_instructions(place: Stage) -> None:
    few = place.shell("ulimit -n 20; seq 9 | nexus map 'About {}' -j 9", installed=True)
    systems = {str(one.body["messages"][0]["content"]) for one in place.server.requests}
    assert few.status == 0 and len(lines(few)) == 9 and len(systems) == 1, few
    assert len(few.told) == 1 and "ulimit -n allows 20 open files" in few.told[0], few


def test_nothing_is_written_with_no_save(place: Stage) -> None:
    done = place.run("map", PROMPT, *FILES, "--no-save")
    assert done.status == 0 and len(lines(done)) == 8 and not list(place.nexus_home.rglob("*.jsonl"))
    assert json.loads(place.run("sessions", "list", "--json").stdout)["sessions"] == []
    assert place.settings(QUICK + PRICED).exists()


def test_a_pipe_among_the_files_holds_up_no_other(place: Stage) -> None:
    os.mkfifo(place.folder / "events.fifo")
    (place.folder / "a.txt").write_text("text")
    done = place.run("map", PROMPT, "events.fifo", "a.txt")
    piped, read = lines(done)
    assert done.status == 3 and read["ok"] and read["text"] == "about a.txt"
    assert not piped["ok"] and "named pipes are not supported" in piped["error"]["message"]
    assert place.shell(f"nexus map '{PROMPT}' <(echo from a command)", installed=True).status == 0
