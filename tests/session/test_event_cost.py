"""What we add costs little: over many played sessions the event layer stays small, and the static text as it is."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from ledger.conftest import on
from session.played import MODEL, Answer, Played, say, the_ledger

from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings
from nexus_cli.conversation.tokens.counter import TiktokenCounter
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.clock import local_now
from nexus_cli.core.entry import Kind
from nexus_cli.core.limits import Limits
from nexus_cli.reports.context import context_report
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

SESSIONS = 10
TURNS = 3
MOST = 150
"""Tokens that we may add to a turn on average."""
COUNT = TiktokenCounter("o200k_base").count
FACTS = [
    "The release branch is called stable.",
    "Prices are in cents, never in floats.",
    "The parser must not import the network layer.",
    "Tests run with pytest -q.",
    "I like short answers.",
]
WORDS = [
    "fix the parser so that it reads empty lines",
    "why is the price wrong in the invoice",
    "run the tests again and tell me what fails",
    "go on",
    "write the release notes for the stable branch",
    "explain the network layer in two sentences",
]


@dataclass
class Corpus:
    """One person in one project over many sessions."""

    folder: Path
    rng: random.Random
    moment: datetime = field(default_factory=local_now)
    preambles: list[int] = field(default_factory=list)
    """Tokens that were added to each turn."""
    static: list[tuple[int, int]] = field(default_factory=list)
    """For each session how many system texts were sent, and under how many epochs."""

    def clock(self) -> datetime:
        """Time passes by itself."""
        self.moment += timedelta(seconds=self.rng.uniform(0.01, 5))
        return self.moment

    def opened(self, session: str, provider: Played, window: int) -> Session:
        options = Options(self.folder, MODEL, resume=session, allow="all", limits=Limits(max_steps=12))
        settings = Settings(models={MODEL: {"window": window}}, default_models={"OPENAI_API_KEY": MODEL})
        return open_session(options, settings, approver=None, provider=provider, clock=self.clock)

    def script(self, request: Any) -> Answer:
        """What a coding model does: a few calls, then a word."""
        last = request.messages[-1]
        text = str(last["content"])
        if "summary" in text and "replaced" in text:
            return "Goal: fix the parser. Files: src/f1.py changed."
        if last["role"] == "tool" and self.rng.random() < 0.6:
            return "Done: " + "I changed what was asked for and ran the tests. " * self.rng.randint(1, 5)
        path = f"src/f{self.rng.randint(0, 9)}.py"
        made: list[tuple[str, dict[str, Any]]] = [
            ("read_file", {"path": path}),
            ("grep", {"pattern": "def ", "path": "src"}),
            ("bash", {"command": f"echo {self.rng.randint(0, 999)} >> {path}"}),
            ("glob", {"pattern": "**/*.py"}),
            ("remember", {"slot": "project", "text": self.rng.choice(FACTS)}),
        ]
        return self.rng.sample(made, self.rng.randint(1, 3))

    def play(self, number: int) -> None:
        """One session of `TURNS` turns."""
        provider, session = Played(self.script), ""
        window = self.rng.choice([16_000, 32_000, 200_000])
        for turn in range(TURNS):
            words: Any = self.rng.choice(WORDS)
            if turn == 0:
                words = f"Remember: {FACTS[number % len(FACTS)]} {words}"
            if self.rng.random() < 0.15:
                words = Trigger(f"{words}\n{'data ' * 50}", "stdin")
            if self.rng.random() < 0.4:
                (self.folder / "src" / f"f{self.rng.randint(0, 9)}.py").write_text(f"def f(): return {turn}\n" * 30)
            self.moment += timedelta(minutes=self.rng.expovariate(1 / 12))
            (places().config / "PREFERENCES.md").write_text(f"Metric units, since {number}.{turn}.\n")
            running = self.opened(session, provider, window)
            session = running.id
            say(running, words)
        self.weigh(session, {str(messages[0]["content"]) for messages in provider.seen})

    def weigh(self, session: str, systems: set[str]) -> None:
        """What was added to each turn of a session, and how often its beginning changed."""
        with the_ledger() as ledger:
            lane = ledger.session(session).main_lane
            turns = 0
            for entry in on(ledger, lane).read(1, on(ledger, lane).last_id()):
                if entry.kind is Kind.USER:
                    turns += 1
                    self.preambles.append(0)
                if entry.preamble:
                    self.preambles[-1] += COUNT(entry.preamble)
            assert turns == TURNS
            self.static.append((len(systems), len({row.manifest.epoch for row in on(ledger, lane).requests()})))


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    """A small repository and somebody with settings, skills and a persona."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nothing")
    (tmp_path / "src").mkdir()
    for number in range(10):
        (tmp_path / "src" / f"f{number}.py").write_text(f"def f{number}(): return {number}\n" * 20)
    (tmp_path / "README.md").write_text("A parser for invoices.\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    skills = places().config / "skills" / "release"
    skills.mkdir(parents=True)
    (skills / "SKILL.md").write_text("How to release.\n")
    (places().config / "SOUL.md").write_text("Calm and exact.\n")
    return Corpus(tmp_path, random.Random(8))


def test_the_event_layer_costs_at_most_150_tokens_a_turn_and_the_static_text_stays(
    corpus: Corpus, record_property: Callable[[str, object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(SESSIONS):
        corpus.play(number)
    assert len(corpus.preambles) == SESSIONS * TURNS
    average = sum(corpus.preambles) / len(corpus.preambles)
    ordered = sorted(corpus.preambles)
    said = (
        f"event layer over {SESSIONS} sessions of {TURNS} turns: {average:.0f} tokens a turn on average, "
        f"median {ordered[len(ordered) // 2]}, 95 % below {ordered[int(len(ordered) * 0.95)]}, most {ordered[-1]}"
    )
    record_property("event_layer", said)
    with capsys.disabled():
        print(f"\n{said}")
    assert 0 < average <= MOST
    assert all(1 <= texts <= epochs for texts, epochs in corpus.static)
    assert any(epochs > 1 for _, epochs in corpus.static), "some session was compacted"


def test_a_plain_session_in_a_small_project_begins_with_less_than_2200_tokens(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"f{number}.py").write_text("x = 1\n")
    options = Options(tmp_path, MODEL, save=False)
    value = context_report(options, Settings(models={MODEL: {"window": 200_000}}), None)
    used = value["budget"]["used"]
    assert 1000 < used["system"] + used["tools"] < 2200
    assert used["event"] < 100
    assert {"contract", "environment", "workspace", "tool_guide"} <= {section["id"] for section in value["sections"]}
