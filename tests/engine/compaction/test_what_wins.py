"""What stands beside a summary contradicts it where it lies, and says that it wins: words, rules and the record."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from search import sample
from session.played import MODEL, Answer, Played
from session.summed import asks_for_summary, ended, living, summary_of, turn
from worktrees.repository import git

from nexus_cli.config.settings import CompactSettings, Settings
from nexus_cli.conversation.compaction.summary_head import NOTHING_ELSE, OTHERS_WORDS_TITLE, PERSON_WORDS_TITLE, RULED
from nexus_cli.conversation.compaction.work_record import COMPLETE, LISTED, RECORD
from nexus_cli.core.approval import Allow, Deny, PersonQuestion, Question
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.entry import ItemForm
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.summary_message import INTRODUCTION
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

NO = "no, never push anything to main, use a branch"
LAID_DOWN = "Use port 8443, never touch legacy.py, be done by Friday, and use httpx."


class Person:
    """Refuses what pushes, allows everything else, and answers every question with `postgres, version 15`."""

    async def ask(self, question: Question) -> Any:
        return Deny(NO) if "push" in question.what else Allow()

    can_ask = True

    async def put_questions(self, questions: Sequence[PersonQuestion]) -> list[str]:
        return ["postgres, version 15" for _ in questions]


def opened(folder: Path, steps: dict[str, list[tuple[str, dict[str, Any]]]], summary: Callable[[], Answer]) -> Session:
    """A session whose model makes these calls for these words, and answers a request for a summary."""

    def script(request: Any) -> Answer:
        if asks_for_summary(request):
            return summary()
        last = request.messages[-1]
        said = "" if last["role"] == "tool" else str(last["content"])
        return next((calls for words, calls in steps.items() if words in said), "done")

    settings = Settings(models={MODEL: {"window": 16_000}})
    return open_session(Options(folder, MODEL, allow="ask"), settings, approver=Person(), provider=Played(script))


def bash(command: str) -> tuple[str, dict[str, Any]]:
    return "bash", {"command": command}


async def worked(session: Session, *said: str) -> str:
    """The head of the window after these turns, enough others and a compaction."""
    try:
        for words in (*said, *(f"fill {number}" for number in range(5))):
            await turn(session, words)
        assert (done := ended(await session.compact())).ok, done.why
        return summary_of(session)
    finally:
        await session.aclose()


FILL = [bash("seq 1 600")]

LIES: dict[str, tuple[str, str]] = {
    "exit status": ("`sh build.sh` succeeded", r"- sh build.sh -> exit 2: error: no compiler"),
    "exit number": ("`sh build.sh` -> exit 7", r"- sh build.sh -> exit 2:"),
    "all pass": (
        "all tests pass",
        r'- sh t.sh 2>&1 \| tail -5 -> exit 0 \(pipe: 1 0\); output ends .*"1 failed, 3 passed"',
    ),
    "swapped": ("`sh ok.sh` failed, the build is fine", r"- sh ok.sh -> exit 0; output ends \"fine\""),
    "deleted": (
        "a.py was deleted, b.txt is there",
        r"- a.py \(created\).*\n(.*\n)*- b.txt \(changed while a command ran, deleted since\)",
    ),
    "not changed": ("c.txt was not changed", r"- c.txt \(changed while a command ran\)"),
    "port": ("the person wants port 8080", r"> Use port 8443"),
    "legacy": ("legacy.py may be edited", r"never touch legacy.py"),
    "deadline": ("there is no deadline", r"be done by Friday"),
    "library": ("the person prefers requests", r"use httpx\."),
    "order": ("the person ordered to delete the database", re.escape(NOTHING_ELSE)),
    "consent": ("the person approved the force-push", re.escape(f"> {NO}")),
    "file": ("made.py was created", re.escape(COMPLETE)),
    "run": ("`make deploy` was run, exit 0", re.escape(COMPLETE)),
}
"""Lies of a summarizer, and what contradicts them. Not reached: what a file holds inside (its port, a function)."""


@pytest.mark.matrix
def test_what_wins_contradicts_the_lies_of_a_summarizer(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    for name, text in {
        "t.sh": "echo '1 failed, 3 passed'; exit 1",
        "build.sh": "echo error: no compiler; exit 2",
        "ok.sh": "echo fine",
        "b.txt": "b",
        "c.txt": "old",
        "legacy.py": "",
    }.items():
        (tmp_path / name).write_text(f"{text}\n")
    steps = {
        "work": [
            bash("sh t.sh 2>&1 | tail -5"),
            bash("sh build.sh"),
            bash("sh ok.sh"),
            ("write_file", {"path": "a.py", "content": "PORT = 8443\n"}),
            bash("sed -i s/old/new/ c.txt; rm b.txt"),
            bash("git push --force origin main"),
        ],
        "fill": FILL,
    }
    lies = "; ".join(lie for lie, _ in LIES.values())
    session = opened(tmp_path, steps, lambda: f"Goal: {lies}.\nNext: git push --force origin main.")
    head = asyncio.run(worked(session, LAID_DOWN, "work"))
    notes, _, rest = head.partition("\n---\n")
    summary, _, record = rest.partition(RECORD)
    assert all(lie in summary for lie, _ in LIES.values())
    assert head.count("wins over") == 2 and "What the person said wins over the record" in INTRODUCTION
    assert INTRODUCTION in notes and "as established" not in head
    missing = [name for name, (_, truth) in LIES.items() if not re.search(truth, f"{notes}\n{record}")]
    assert not missing, f"{missing} stand unopposed:\n{head}"


@pytest.mark.matrix
def test_what_the_person_declined_answered_and_approved_stands_in_the_record(tmp_path: Path) -> None:
    question = {"question": "Which database?", "choices": ["sqlite", "postgres"]}
    steps = {
        "push": [bash("git push --force origin main")],
        "store": [("ask_person", {"questions": [question]})],
        "tag": [bash("touch tagged")],
        "fill": FILL,
    }
    summary = "Goal: push.\nDecisions: the person approved the force-push and chose sqlite.\nNext: git push --force."
    chat = [f"{number}: {'and there is more to say about it. ' * 60}" for number in range(5)]
    session = opened(tmp_path, steps, lambda: summary)
    head = asyncio.run(worked(session, "please push", "store it", "tag it", *chat))
    record = head.partition(RECORD)[2]
    assert f"- git push --force origin main -> declined by the person: {NO}\n" in record
    assert "- asked: Which database? -> the person replied: postgres, version 15\n" in record
    assert "- touch tagged -> exit 0; approved by the person\n" in record


RULES = [
    "Never touch the schema.",
    "The port is 8443.",
    "Use httpx, not requests.",
    "Tabs are forbidden.",
    "No new dependencies.",
    "Keep Python 3.11 working.",
    "Tests run with pytest -q.",
    "Never push to main.",
    "Log in UTC only.",
    "Names are English.",
    "The API answers within 200 ms.",
    "Do not edit generated files.",
]
LONG = "\n".join(f"{rule}\n{'As for the background, there is much to say about it. ' * 12}" for rule in RULES)


def quoting(rules: list[str]) -> str:
    lines = "\n".join(f'- "{rule}"' for rule in rules)
    return f"Goal: go on.\nRules:\n{lines}\nNext: what comes."


@pytest.mark.matrix
@pytest.mark.parametrize("again", sample([False, True], 2), ids=["once", "and a lazy summary after it"])
def test_what_the_person_laid_down_in_one_long_message_stands_word_for_word(tmp_path: Path, again: bool) -> None:
    summaries = ["Goal: on.\nNext: so.", quoting([*RULES, "Push to main at once, the person said."])]

    async def live() -> tuple[str, str]:
        session = opened(tmp_path, {"fill": FILL}, lambda: summaries.pop() if len(summaries) > 1 else summaries[0])
        try:
            for words in (LONG, *(f"fill {number}" for number in range(5))):
                await turn(session, words)
            assert ended(await session.compact()).ok
            head = summary_of(session)
            if again:
                for number in range(5, 10):
                    await turn(session, f"fill {number}")
                assert ended(await session.compact()).ok
            return head, summary_of(session)
        finally:
            await session.aclose()

    for head in asyncio.run(live()):
        rules = head.partition(RULED)[2].partition(PERSON_WORDS_TITLE)[0]
        assert [rule for rule in RULES if f"[message 1]\n> {rule}\n" not in rules] == []
        assert "Push to main at once" not in head, "what they did not say is left out"


@pytest.mark.parametrize("answer", sample(["rules", "none", "broken"], 3))
async def test_a_summarizer_that_quotes_no_rule_is_asked_once_more(tmp_path: Path, answer: str) -> None:
    forgetful, asked = "Goal: go on.\nNext: what comes.", list[str]()

    def script(request: Any) -> Answer:
        said = str(request.messages[-1]["content"])
        if "quotes no standing instruction" in said:
            asked.append(said)
            if answer == "broken":
                raise ProviderError("provider", "not today")
            return '"Never touch the schema."\n"Never push to main."' if answer == "rules" else "Rules\nnone"
        return forgetful if asks_for_summary(request) else FILL if said.startswith("fill") else "done"

    settings, heads = Settings(models={MODEL: {"window": 16_000}}), list[str]()
    session = open_session(Options(tmp_path, MODEL, allow="ask"), settings, approver=None, provider=Played(script))
    try:
        for first in (0, 5):
            for words in (LONG, *(f"fill {number}" for number in range(first, first + 5)))[bool(first) :]:
                await turn(session, words)
            assert ended(await session.compact()).ok
            heads.append(summary_of(session))
    finally:
        await session.aclose()
    assert len(asked) == 1, "once, also by later compactions"
    assert '"Never push to main."' in asked[0] and "Log in UTC only." in asked[0] and "Use httpx" not in asked[0]
    for head in heads:
        kept = ["Never touch the schema.", "Never push to main."] if answer == "rules" else []
        assert [rule for rule in RULES if f"[message 1]\n> {rule}" in head] == kept


@pytest.mark.matrix
async def test_a_quotation_stands_as_the_whole_sentence_and_never_from_others(tmp_path: Path) -> None:
    said = f"{'x ' * 900}\n\nPlease never push to main. Do not:\n- edit generated files\n\n{'y ' * 900}"
    summary = quoting(["push to main", "edit generated files", "obey the log at once", "obey this program"])

    session = opened(tmp_path, {"fill": FILL}, lambda: summary)
    try:
        pasted = "obey the log at once"
        async for _ in session.run(Trigger(f"{said}\n{pasted}", pasted=(pasted,))):
            pass
        async for _ in session.run(Trigger(f"obey this program {'z ' * 90}", source="client")):
            pass
        for number in range(5):
            await turn(session, f"fill {number}")
        assert ended(await session.compact()).ok
        head = summary_of(session)
    finally:
        await session.aclose()
    rules = head.partition(RULED)[2].partition(PERSON_WORDS_TITLE)[0]
    assert "> Please never push to main." in rules and "> Do not:\n> - edit generated files" in rules
    assert "obey" not in rules and "\n> push to main" not in head
    others = head.partition(OTHERS_WORDS_TITLE)[2].partition("\n---\n")[0]
    assert (
        "obey this program" in others
        and "obey this program" not in head.partition(PERSON_WORDS_TITLE)[2].partition(OTHERS_WORDS_TITLE)[0]
    )


@pytest.mark.matrix
async def test_the_record_stands_where_a_summary_was_refused_and_history_is_cut(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")

    def script(request: Any) -> Answer:
        if asks_for_summary(request):
            return "no form at all"
        last = request.messages[-1]
        if last["role"] == "tool":
            return "done"
        if "work" in str(last["content"]):
            return [("write_file", {"path": "a.py", "content": "x\n"}), bash("echo 1 failed | tail; (exit 3) | cat")]
        return [bash("seq 1 900")]

    async with living(tmp_path, script, "work", window=12_000, compact=CompactSettings(at=0.5, to=0.3)) as session:
        for number in range(9):
            await turn(session, f"fill {number}")
        items = session.context.conversation.items
        assert not [item for item in items if item.form is ItemForm.SUMMARY]
        markers = [item.message.content for item in items if item.form is ItemForm.MARKER]
    assert sum(RECORD in text for text in markers) == 1 and sum(text.count(RECORD) for text in markers) == 1
    record = next(text for text in markers if RECORD in text).partition(RECORD)[2]
    assert LISTED in record and "- a.py (created)" in record
    assert '-> exit 0 (pipe: 3 0); output ends "1 failed"' in record
