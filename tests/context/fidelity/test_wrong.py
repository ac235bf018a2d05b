"""What a summary says that is not so: found, made good by a line, counted; and never where it only repeats."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import pytest
from context.fidelity import generated
from hypothesis import given, settings
from hypothesis import strategies as st

from nexus_cli.context.fidelity import added_room, judge
from nexus_cli.context.fidelity.analysed import Analysed, History, history
from nexus_cli.context.fidelity.exact import sentences, values
from nexus_cli.context.fidelity.extract import of_message
from nexus_cli.context.fidelity.wrong import Wrong, wrong
from nexus_cli.context.tokens import SimpleTokenCounter
from nexus_cli.core.entry import Entry, Kind
from nexus_cli.core.message import Message, Role, ToolCall

COUNT = SimpleTokenCounter().count
KINDS = {Role.USER: Kind.USER, Role.ASSISTANT: Kind.ASSISTANT, Role.TOOL: Kind.TOOL}
SAID = """Please always serve on port 8080; the database is on port 5432. It is ticket SHOP-1234.
Use tabs for indentation. Never use eval. All dates must be in UTC.
Keep Python 3.11 working, and pin redis:7.2. The account is 48120077, see https://wiki.example.com/deploy/v2 for it.
Keep every function under 40 lines. The timeout is 30 s. MAX_RETRIES = 5 in src/parser/rules.py.
The host is 10.4.0.17, the commit 1a2b3c4d5e."""


def entries(messages: Sequence[Message]) -> History:
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    actors = [f"tool:{names[m.tool_call_id]}" if m.tool_call_id else str(m.role) for m in messages]
    rows = zip(messages, actors, strict=True)
    return history(Entry(number, "", actor, KINDS[m.role], m) for number, (m, actor) in enumerate(rows, 1))


def called(number: int, name: str, arguments: dict[str, object], result: str) -> list[Message]:
    call = ToolCall(f"c{number}", name, arguments)
    return [Message(Role.ASSISTANT, "", (call,)), Message(Role.TOOL, result, tool_call_id=call.id)]


def ran(number: int, command: str, status: int, output: str = "") -> list[Message]:
    return called(number, "bash", {"command": command}, f"{output}[exit status {status}]")


NOTHING = entries([])
WORK = entries(
    [
        Message(Role.USER, SAID),
        *called(1, "write_file", {"path": "a.py", "content": "x"}, "created a.py, 1 lines"),
        *ran(2, "rm b.py", 0),
        *ran(3, "pytest -q", 1, "2 failed, 40 passed\n"),
        *ran(4, "mypy .", 0),
        *ran(5, "make build", 2),
    ]
)

FALSE = {
    "It serves on port 8081.": "port 8080",
    "Serving port: 9090": "port 8080",
    "The ticket is SHOP-1243.": "SHOP-1234",
    "Python 3.12 has to keep working.": "3.11",
    "redis:7.3 is pinned.": "redis:7.2",
    "Account 48120078": "48120077",
    "Described at https://wiki.example.com/deploy/v3 by them.": "https://wiki.example.com/deploy/v2",
    "Functions stay under 50 lines.": "under 40",
    "A timeout of 60 s holds.": "timeout is 30",
    "MAX_RETRIES = 6": "MAX_RETRIES = 5",
    "src/parsr/rules.py was looked at": "src/parser/rules.py",
    "The host is 10.4.0.71.": "10.4.0.17",
    "All tests pass.": "exit 1",
    "`pytest -q` passes now.": "exit 1",
    "Ran `pytest -q`: exit status 0.": "exit 1",
    "The build succeeds.": "exit 2",
    "mypy fails.": "exit 0",
    "a.py was deleted.": "created",
    "b.py was left alone, a.py removed": "created",
    "Deleted a.py and c.py.": "created",
    "- b.py was created": "deleted",
    "Use spaces for indentation.": "tabs",
    "The person wants spaces for indentation.": "tabs",
    "Use eval where needed.": "Never use eval",
    "All dates must be in local time.": "UTC",
}
TRUE = (
    SAID,
    "It serves on port 8080, the database on 5432.",
    "1. The port is 8080.\n2. The timeout is 30 s.\n3. Nothing else.\n17. Done.",
    "3 files were changed, 42 tests passed and 7 failed.",
    "About 3,000 rows, roughly 1.5 s, over 250000 requests, ~8 MB.",
    "On 2026-01-13 at 12:45, and again on 14.01.2026.",
    "It took 12.5 s, which is 3.2x faster, 85 % less.",
    "Commit 1a2b3c4 has it.",
    "Python 3.11 is kept.",
    "See section 3.4 and step 12.",
    "Next: bump the version to 3.12 and create src/parser/rule.py.",
    "The tests passed at first; then pytest -q ended with exit 1.",
    "40 tests pass, 2 fail.",
    "The tests must pass before a commit.",
    "Next: make the tests pass.",
    "Once all tests pass, the branch is merged.",
    "The person said that tests pass on their machine.",
    "a.py was created, b.py was deleted.",
    "b.py was created for a try, then b.py was deleted again.",
    "Do not delete a.py.",
    "eval is forbidden; tabs, not spaces.",
    "Trailing spaces were stripped.",
    "eval was replaced everywhere.",
    "Dates are converted from local time to UTC.",
    "mypy passes, the build fails.",
    "The file parser/rules.py under /home/me/project/src/parser/rules.py.",
)


@pytest.mark.parametrize("claim", FALSE)
def test_what_is_not_so_gets_a_line_that_says_what_is(claim: str) -> None:
    found = wrong(f"The parser was worked on.\n{claim}\nThat is all.", WORK, NOTHING)
    assert len(found) == 1, found
    assert found[0].line.startswith("- the summary says ") and FALSE[claim] in found[0].truth
    assert "(message " in found[0].truth and "\n" not in found[0].line


@pytest.mark.parametrize("text", TRUE)
def test_what_is_so_or_cannot_be_known_is_left_alone(text: str) -> None:
    assert not wrong(text, WORK, NOTHING)


def test_what_stood_beside_the_history_or_stays_is_not_made_up() -> None:
    summary = "It serves on port 8081. All tests pass. Use spaces."
    assert len(wrong(summary, WORK, NOTHING)) == 3
    kept = entries([*ran(9, "pytest -q", 0), Message(Role.USER, "No, port 8081. Use spaces instead of tabs.")])
    assert not wrong(summary, WORK, kept)
    assert len(wrong(summary, WORK, NOTHING, ["the port is 8081"])) == 2


def test_what_somebody_says_of_a_file_is_no_proof_against_a_summary() -> None:
    said = entries([Message(Role.ASSISTANT, "a.py was created, b.py was deleted.")])
    assert not wrong("c.py is new; b.py was created.", said, NOTHING)


def test_a_short_sentence_that_was_true_once_is_a_claim_but_a_summary_of_quotations_makes_none() -> None:
    work = entries([Message(Role.ASSISTANT, "All tests pass."), *ran(1, "pytest", 1)])
    assert wrong("The parser was moved. All tests pass.", work, NOTHING)
    assert not wrong("All tests pass.", work, NOTHING)


@given(st.integers(0, 10_000), st.integers(1, 40))
@settings(max_examples=20, deadline=None)
def test_a_summary_made_of_sentences_of_the_history_is_never_called_wrong(seed: int, most: int) -> None:
    rnd = random.Random(seed)
    work = entries([Message(Role.USER, SAID), *generated.History(seed, turns=4).messages, *ran(99, "pytest -q", 1)])
    told = [line for entry in work.entries for line in sentences(entry.message.content)]
    assert not wrong("\n".join(f"- {line}" for line in rnd.sample(told, min(most, len(told)))), work, NOTHING)


EXACT = (
    "The {thing} listens on port {n4}.",
    "Keep {lang} {n1}.{n2} working for the {thing}.",
    "The {thing} is tracked as {up}-{n4}.",
    "Pin the {thing} client to version {n1}.{n2}.{n1}.",
    "The pull request #{n4} is about the {thing}.",
    "The customer of the {thing} has the account {n8}.",
    "The {thing} answers at 10.{n2}.{n1}.{n2}:{n4}.",
    "Commit {hex} broke the {thing}.",
)


def test_one_digit_changed_in_a_port_a_version_or_an_id_is_found_nine_times_in_ten() -> None:
    tried = found = 0
    for seed in range(40):
        rnd = random.Random(seed)

        def number(digits: int, rnd: random.Random = rnd) -> int:
            return rnd.randrange(10 ** (digits - 1), 10**digits)

        told = [
            form.format(
                thing=rnd.choice(generated.THINGS), up=rnd.choice(generated.THINGS)[:4].upper(), n1=number(1),
                n2=number(2), n4=number(4), n8=number(8), lang=rnd.choice(("Python", "Node", "Java")),
                hex=f"{rnd.getrandbits(40):010x}",
            )
            for form in EXACT for _ in range(2)
        ]  # fmt: skip
        work = entries([Message(Role.USER, " ".join(told)), *generated.History(seed, turns=2).messages])
        line = rnd.choice(told)
        value = rnd.choice(values(line)[-1:]).text
        place = rnd.choice([index for index, letter in enumerate(value) if letter.isdigit()])
        changed = value[:place] + str((int(value[place]) + rnd.randint(1, 9)) % 10) + value[place + 1 :]
        tried += 1
        claims = wrong("\n".join([*told[:4], line.replace(value, changed)]), work, NOTHING)
        found += any(changed in claim.says and value in claim.truth for claim in claims)
    print(f"{found} of {tried} found")
    assert found >= 0.9 * tried


def test_a_wrong_claim_is_put_right_within_the_room_and_counted() -> None:
    summary = f"{SAID} And it serves on port 8081."
    false = wrong(f"{summary} It really does.", WORK, NOTHING)
    assert len(false) == 1

    def judged(room: int, false: Sequence[Wrong]) -> tuple[bool, int, tuple[str, ...]]:
        verdict = judge(WORK.found, summary, [], room=room, count=COUNT, recallable=lambda _: True, wrong=false)
        assert COUNT("\n".join(verdict.added)) <= room and verdict.described()["wrong"] == verdict.wrong
        assert verdict.retained + verdict.recallable + verdict.missing == verdict.total
        return verdict.ok, verdict.wrong, verdict.added

    ok, number, added = judged(1000, false)
    assert (ok, number) == (True, 1) and added[0] == false[0].line
    assert not judged(5, false)[0], "nothing puts it right"
    many = [Wrong(f"port {number}", "what was said is port 8080 (message 1)") for number in range(len(WORK.found))]
    assert judged(9999, ())[0] and not judged(9999, many)[0], "as many as may be missing"


@pytest.mark.parametrize("seed", range(2))
def test_what_a_summariser_corrupts_is_put_right_and_nearly_all_still_stands(seed: int) -> None:
    work = entries(generated.History(seed, turns=20).messages)
    summary = generated.summarised(work.found, seed)
    false = wrong(summary, work, NOTHING)
    room = added_room(14_720)
    verdict = judge(work.found, summary, [], room=room, count=COUNT, recallable=lambda _: True, wrong=false)
    assert verdict.ok and verdict.score >= 0.95 and verdict.wrong == len(false) >= 3
    assert not wrong(generated.summarised(work.found, seed, broken=0.0), work, NOTHING)


def test_an_entry_is_looked_at_once_and_what_is_kept_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    def counting(entry: int, *rest: object) -> object:
        looked.append(entry)
        return of_message(entry, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr("nexus_cli.context.fidelity.analysed.of_message", counting)
    known = Analysed()
    first, second = (history(WORK.entries, known) for _ in "ab")
    assert first.found == second.found == WORK.found and looked == list(range(1, len(WORK.entries) + 1))
    small = Analysed(most=6)
    assert history(WORK.entries, small).found == WORK.found and small._size <= 6 + len(WORK.by_entry[0])
    assert len(small._found) < len(WORK.entries)


def test_the_shell_of_ours_tells_its_status_in_its_last_line_alone() -> None:
    def status(result: str, name: str = "bash") -> list[int | None]:
        told = entries(called(1, name, {"command": "make"}, result))
        return [one.exit for one in told.found if one.kind == "command"]

    assert status("exit code 3\n[exit status 0]") == [0]
    assert status("exit code 3\n[ended after 9 s: time limit; exit status 124; 2 background processes ended]") == [124]
    assert status("the run ended with exit code 3\ninterrupted while it ran: the person stopped the turn") == [None]
    assert status("the run ended with exit code 3\n", "shell") == [3], "of another tool the text is all there is"
    gone = entries(called(1, "bash", {"command": "rm a.py"}, "exit status 0\nnot run: the person stopped the turn"))
    assert not [one for one in gone.found if one.kind == "file"]


def test_sentences_of_a_very_long_line_and_odd_text_cost_little() -> None:
    odd = "a" * 50_000 + "\n" + "`" * 3000 + "\n" + "1.1" * 600 + "\n" + "port " * 300 + re.escape("([{") * 200
    assert wrong(odd, WORK, NOTHING) == wrong(odd, WORK, NOTHING)
