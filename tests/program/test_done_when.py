"""What the program is for: a failing test fixed, a diff reviewed whole, a killed session that goes on, all proved."""

from __future__ import annotations

import json
import random
import shlex
import signal
import sqlite3
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from program.stage import Done, Seen, Stage, calls, clean, end, play, stage, until
from server.blocks import first_difference, is_prefix

BROKEN = "def add(a, b):\n    return a - b\n"
TEST = "from calc import add\n\nassert add(2, 3) == 5, 'FAILED'\nprint('passed')\n"
REVIEW = "".join(f"Line {number}: grüße, 日本語, **bold**\n" for number in range(4000))
BATCH = 6


def repository(place: Stage) -> None:
    """Makes the project a git repository with one commit."""
    made = place.shell(
        "git init -q . && git add -A && git -c user.name=n -c user.email=n@example.org commit -q -m first"
    )
    assert made.status == 0, made.stderr


def replays(place: Stage) -> list[Done]:
    """`nexus replay` of every session in the ledger."""
    listed = place.run("sessions", "list", "--all", "--json").result["sessions"]
    return [place.run("replay", "--session", session["id"]) for session in listed]


def failing_test(root: Path) -> dict[str, Any]:
    test = {"command": f"{shlex.quote(sys.executable)} -B test_calc.py"}
    script: list[Any] = [
        calls(("bash", test), ("read_file", {"path": "calc.py"})),
        calls(("edit_file", {"path": "calc.py", "edits": [{"old": "a - b", "new": "a + b"}]})),
        calls(("bash", test)),
        "The sign was wrong; the test passes now.",
    ]
    with stage(root, script) as place:
        (place.folder / "calc.py").write_text(BROKEN)
        (place.folder / "test_calc.py").write_text(TEST)
        (place.folder / "calc.py").chmod(0o640)
        repository(place)
        done = place.ask("--stream-json", "--allow", "all", "fix the failing test")
        return {
            "done": done,
            "lines": [json.loads(line) for line in done.stdout.splitlines()],
            "file": (place.folder / "calc.py").read_text(),
            "mode": (place.folder / "calc.py").stat().st_mode & 0o777,
            "status": place.shell("git status --short").text,
            "requests": list(place.server.requests),
            "replays": replays(place),
            "shown": place.run("sessions", "show", done_session(done), "--json").result,
        }


def done_session(done: Done) -> str:
    """The session that a stream of lines tells of."""
    return str(json.loads(done.stdout.splitlines()[-1])["session"])


def review(root: Path) -> dict[str, Any]:
    with stage(root, {"default": {"text": REVIEW, "chunk": 700, "write": "utf8"}}) as place:
        (place.folder / "calc.py").write_text(BROKEN)
        repository(place)
        (place.folder / "calc.py").write_text(BROKEN.replace("-", "+"))
        done = place.shell('git diff | nexus ask "review this" | cat')
        return {"done": done, "sent": place.server.requests[0].body["messages"][-1]["content"]}


def ten_megabytes(root: Path) -> dict[str, Any]:
    words = random.Random(3)
    lines = (f"+{number} {words.getrandbits(200):x} größer\n" for number in range(170_000))
    diff = "diff --git a/a b/a\n" + "".join(lines)
    assert len(diff.encode()) > 10_000_000
    with stage(root) as place:
        done = place.ask("--json", "review this", stdin=diff.encode())
        drop = done.result["drops"][0]["id"]
        back = place.run("drops", "show", drop).stdout
        length = len(back.decode())
        cuts = [0, 1, 4_000_000, 4_000_001, length - 5]
        ranges = [f"{a}:{b}" for a, b in pairwise(cuts)] + [f"{cuts[-1]}:"]
        joined = b"".join(place.run("drops", "show", drop, "--range", text).stdout for text in ranges)
        sent = place.server.requests[0].body["messages"][-1]["content"]
        return {
            "done": done,
            "diff": diff,
            "back": back,
            "joined": joined,
            "sent": sent,
            "drop": drop,
            "replays": replays(place),
            "listed": place.run("drops", "--json").result,
            "context": place.run("context", "--json").result,
        }


def killed_in_a_batch(root: Path) -> dict[str, Any]:
    commands = [("bash", {"command": f"echo {number} >> ran; echo result {number}"}) for number in range(BATCH)]
    commands[3] = ("bash", {"command": "echo 3 >> ran; touch third; sleep 60"})
    script: list[Any] = [calls(("glob", {"pattern": "*"})), calls(*commands), "went on", "and on"]
    with stage(root, script) as place:
        child = place.begin("ask", "--allow", "all", "hi")
        try:
            assert until(lambda: (place.folder / "third").exists(), 120)
            child.send_signal(signal.SIGKILL)
            child.wait(timeout=120)
        finally:
            end(child)
        (place.folder / "NEXUS.md").write_text("New rules that came meanwhile.\n")
        done = place.ask("-c", "--allow", "all", "go on")
        more = place.ask("-c", "--no-tools", "--allow", "read", "and on")
        return {
            "done": done,
            "more": more,
            "requests": list(place.server.requests),
            "replays": replays(place),
            "ran": (place.folder / "ran").read_text().split(),
        }


def flipped(root: Path) -> dict[str, Done]:
    """Blobs of a session with one byte changed, each in turn, and what `nexus replay` says of it."""
    with stage(root, [calls(("read_file", {"path": "a.txt"})), "fine"]) as place:
        (place.folder / "a.txt").write_text("some text\n" * 40)
        place.ask("hi")
        connection = sqlite3.connect(place.ledger)
        entries = [row[0] for row in connection.execute("SELECT blob FROM entries ORDER BY id")]
        blobs = {
            "line 1": connection.execute("SELECT blob FROM schemas ORDER BY position DESC").fetchone()[0],
            "line 2": connection.execute("SELECT system FROM epochs").fetchone()[0],
            "line 3: entry 1": entries[0],
            "line 5: entry 3": entries[2],
        }
        told = {}
        for line, blob in blobs.items():
            (data,) = connection.execute("SELECT data FROM blobs WHERE id = ?", (blob,)).fetchone()
            middle = len(data) // 2
            changed = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
            connection.execute("UPDATE blobs SET data = ? WHERE id = ?", (changed, blob))
            connection.commit()
            told[line] = place.run("replay")
            connection.execute("UPDATE blobs SET data = ? WHERE id = ?", (data, blob))
            connection.commit()
        connection.close()
        return told | {"": place.run("replay")}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return play(tmp_path_factory.mktemp, failing_test)


@pytest.fixture(scope="module")
def seen_cold(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return play(tmp_path_factory.mktemp, review, ten_megabytes, killed_in_a_batch, flipped)


def test_a_failing_test_is_read_edited_run_and_fixed(seen: Seen) -> None:
    shown = seen["failing_test"]
    assert shown["done"].status == 0 and shown["done"].stderr == b""
    assert (shown["file"], shown["mode"]) == (BROKEN.replace("-", "+"), 0o640)
    assert shown["status"] == " M calc.py\n"
    last = shown["requests"][-1].body["messages"]
    results = [message["content"] for message in last if message["role"] == "tool"]
    assert "FAILED" in results[0] and "a - b" in results[1] and "passed" in results[-1], results


def test_the_lines_of_a_turn_are_numbered_complete_and_end_in_a_true_result(seen: Seen) -> None:
    lines = seen["failing_test"]["lines"]
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    assert {line["v"] for line in lines} == {1} and all(line["at"].endswith("Z") for line in lines)
    kinds = [line["type"] for line in lines]
    assert kinds[:2] == ["session.start", "turn.start"] and kinds[-2:] == ["turn.end", "result"]
    assert kinds.count("result") == kinds.count("turn.end") == 1
    assert kinds.count("step.start") == kinds.count("step.end") == 4
    assert kinds.count("tool.call") == kinds.count("tool.result") == 4
    assert set(kinds) <= {
        "session.start",
        "turn.start",
        "step.start",
        "context.plan",
        "text.delta",
        "thinking.delta",
        "tool.call",
        "tool.output",
        "tool.result",
        "approval.ask",
        "approval.answer",
        "context.drop",
        "context.recall",
        "cache.expect",
        "cache.result",
        "compaction.start",
        "compaction.done",
        "retry",
        "notice",
        "step.end",
        "turn.end",
        "result",
    }
    said = "".join(line["text"] for line in lines if line["type"] == "text.delta")
    assert said == lines[-1]["text"] == "The sign was wrong; the test passes now."


def test_the_result_tells_the_truth_about_steps_files_and_usage(seen: Seen) -> None:
    shown = seen["failing_test"]
    result = shown["lines"][-1]
    tokens = [request.tokens for request in shown["requests"]]
    usage = result["usage"]
    assert (result["ok"], result["exit"], result["steps"], result["finish"]) == (True, 0, 4, "stop")
    assert (result["denied"], result["drops"], result["error"]) == ([], [], None)
    assert [Path(name).name for name in result["files_changed"]] == ["calc.py"]
    assert usage["input"] == sum(one.input for one in tokens) and usage["output"] == sum(one.output for one in tokens)
    assert usage["cache_read"] == sum(one.cache_read for one in tokens) > 0
    assert usage["cost_usd"] is not None and usage["cost_usd"] > 0
    context = result["context"]
    assert (context["window"], context["budget"], context["epoch"]) == (128_000, 112_000, 0)
    assert context["used"] >= tokens[-1].input


def test_every_request_of_a_turn_begins_with_the_one_before(seen: Seen) -> None:
    requests = seen["failing_test"]["requests"]
    for first, second in pairwise(requests):
        assert is_prefix(first.blocks, second.blocks), first_difference(first.blocks, second.blocks)


def test_the_session_shows_what_happened(seen: Seen) -> None:
    entries = seen["failing_test"]["shown"]["entries"]
    assert [entry["kind"] for entry in entries if entry["kind"] != "tool"] == ["user"] + ["assistant"] * 4
    assert [call["name"] for entry in entries for call in entry["calls"]] == ["bash", "read_file", "edit_file", "bash"]


@pytest.mark.matrix
def test_a_review_in_a_pipeline_comes_out_whole(seen_cold: Seen) -> None:
    shown = seen_cold["review"]
    assert (shown["done"].status, shown["done"].stderr) == (0, b"")
    assert shown["done"].text == REVIEW
    assert "review this\n\n<stdin>\ndiff --git" in shown["sent"] and shown["sent"].endswith("</stdin>")


@pytest.mark.matrix
def test_what_a_huge_diff_could_not_send_comes_back_byte_for_byte(seen_cold: Seen) -> None:
    shown = seen_cold["ten_megabytes"]
    assert shown["done"].status == 0 and clean(shown["done"])
    assert shown["diff"].encode() in shown["back"]
    assert shown["joined"] == shown["back"]


@pytest.mark.matrix
def test_a_huge_diff_is_told_to_the_model_and_to_the_person(seen_cold: Seen) -> None:
    shown = seen_cold["ten_megabytes"]
    result = shown["done"].result
    assert [drop["cause"] for drop in result["drops"]] == ["input_cap"] and result["drops"][0]["tokens"] > 1_000_000
    assert shown["drop"] in shown["sent"] and "recall" in shown["sent"] and "review this" in shown["sent"]
    assert shown["diff"][:500] in shown["sent"] and shown["diff"][-200:-1] in shown["sent"]
    assert any(f"nexus drops show {shown['drop']}" in line for line in shown["done"].told)
    assert [drop["id"] for drop in shown["listed"]["drops"]] == [shown["drop"]]
    assert [drop["id"] for drop in shown["context"]["drops"]] == [shown["drop"]]
    assert result["usage"]["input"] <= result["context"]["budget"]


@pytest.mark.matrix
def test_a_session_killed_in_a_batch_goes_on_with_the_same_bytes(seen_cold: Seen) -> None:
    shown = seen_cold["killed_in_a_batch"]
    assert (shown["done"].status, shown["done"].text) == (0, "went on\n") and clean(shown["done"])
    assert (shown["more"].status, shown["more"].text) == (0, "and on\n")
    requests = shown["requests"]
    assert len(requests) == 4
    for first, second in pairwise(requests):
        assert is_prefix(first.blocks, second.blocks), first_difference(first.blocks, second.blocks)
    assert requests[3].offered == requests[0].offered


@pytest.mark.matrix
def test_confirmed_results_are_kept_and_nothing_runs_twice(seen_cold: Seen) -> None:
    shown = seen_cold["killed_in_a_batch"]
    messages = shown["requests"][2].body["messages"]
    batch = [message for message in messages if message["role"] == "tool"][1:]
    called = [call["id"] for message in messages for call in message.get("tool_calls") or ()][1:]
    assert [message["tool_call_id"] for message in batch] == called and len(batch) == BATCH
    texts = [message["content"] for message in batch]
    assert all(f"result {number}" in texts[number] for number in range(3)), texts
    assert "outcome unknown" in texts[3] and all("not run" in text for text in texts[4:]), texts
    assert shown["ran"] == ["0", "1", "2", "3"]


def test_every_session_made_here_can_be_rebuilt(seen: Seen, seen_cold: Seen) -> None:
    scenes = (seen["failing_test"], seen_cold["ten_megabytes"], seen_cold["killed_in_a_batch"])
    for done in (done for scene in scenes for done in scene["replays"]):
        assert (done.status, done.stderr) == (0, b"") and "identical to what was sent" in done.text, done


def test_one_flipped_byte_is_found_and_its_line_is_named(seen_cold: Seen) -> None:
    for line, done in seen_cold["flipped"].items():
        assert done.status == bool(line) and done.stderr == b"", done
        assert not line or f"differs from what was sent: request {2 if '5' in line else 1}, {line}" in done.text
