"""Which of several numbered things a person means."""

from __future__ import annotations

import pytest

from nexus_cli.cli import confirm
from nexus_cli.ui.asked_question import AskedQuestion, GivenAnswer


@pytest.mark.parametrize(
    ("line", "places"),
    [
        ("all", [0, 1, 2]),
        ("A", [0, 1, 2]),
        ("y", [0, 1, 2]),
        ("yes", [0, 1, 2]),
        ("none", []),
        ("n", []),
        ("No", []),
        ("", []),
        ("3, 1", [0, 2]),
        ("2-3", [1, 2]),
    ],
)
def test_what_a_person_chooses_of_several(monkeypatch: pytest.MonkeyPatch, line: str, places: list[int]) -> None:
    monkeypatch.setattr(confirm, "ask_terminal", lambda _: GivenAnswer(None, line))
    assert confirm.choose_several("Which?", 3) == places


@pytest.mark.parametrize("line", ["y n", "yes 2", "0", "4", "1-4"])
def test_what_names_none_of_several_chooses_nothing(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    asked: list[str] = []

    def answer(question: AskedQuestion) -> GivenAnswer:
        asked.append(question.text)
        return GivenAnswer(None, line)

    monkeypatch.setattr(confirm, "ask_terminal", answer)
    assert confirm.choose_several("Which?", 3) == [] and asked[1] == "Type numbers from the list, all or none."
