"""What a file that is read again shows, or a command that is run again, is not sent again while the window has the very
text, and always where it has not."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from search import some
from session.played import MODEL, Answer, Played, opened, say

from nexus_cli.config.settings import Settings
from nexus_cli.core.limits import Limits
from nexus_cli.core.message import SAME
from nexus_cli.core.request import Request
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options

TEXT = "".join(f"value_{number} = {number}\n" for number in range(100))
READ = ("read_file", {"path": "a.py"})


def results(folder: Path, *steps: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """What the calls of each step gave."""
    waiting = iter(steps)
    provider = Played(lambda _request: next(waiting, "done"))
    _, ended = say(opened(provider, folder), "look")
    assert ended.ok, ended.error
    return [str(one["content"]) for one in provider.seen[-1] if one["role"] == "tool"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text(TEXT)
    return tmp_path


@pytest.mark.matrix
def test_the_same_text_is_sent_once_and_referred_to(folder: Path) -> None:
    part = ("read_file", {"path": "a.py", "offset": 3, "limit": 90})
    first, again, other, same_part, whole, third = results(folder, [READ], [READ], [part], [part], [READ], [READ])
    assert first == TEXT and other.startswith("[lines 3-92 of 100]\n")
    told = f"{SAME}: see the result of read_file a.py above. If that result is no longer there, repeat the call.]"
    assert again == same_part == third == told
    assert whole == TEXT, "the result of read_file a.py above would be the part"


def test_what_changed_since_or_is_called_otherwise_is_sent(folder: Path) -> None:
    (folder / "b.py").write_text(TEXT)
    edit = ("edit_file", {"path": "a.py", "edits": [{"old": "value_7 =", "new": "value_seven ="}]})
    shown = results(folder, [READ], [edit], [READ], [("read_file", {"path": "b.py"})], [READ])
    assert shown[2] == TEXT.replace("value_7 =", "value_seven =") and shown[3] == TEXT and shown[4].startswith(SAME)


@pytest.mark.matrix
@pytest.mark.parametrize("reads_between", [True, False])
def test_a_file_that_was_edited_and_taken_back_is_sent(folder: Path, reads_between: bool) -> None:
    edit = ("edit_file", {"path": "./a.py", "edits": [{"old": "value_7 =", "new": "value_seven ="}]})
    back = ("bash", {"command": "sed -i 's/value_seven =/value_7 =/' a.py"})
    shown = results(folder, [READ], [edit], *([[READ]] if reads_between else []), [back], [READ], [READ])
    assert shown[-2] == TEXT and shown[-1].startswith(SAME)


@pytest.mark.matrix
def test_a_file_that_another_program_changed_and_changed_back_is_sent(folder: Path) -> None:
    there, back = (
        ("bash", {"command": f"sed -i 's/{old} =/{new} =/' a.py"})
        for old, new in (("value_7", "value_seven"), ("value_seven", "value_7"))
    )
    assert results(folder, [READ], [there], [READ], [READ], [back], [READ])[-1] == TEXT


@pytest.mark.matrix
def test_calls_of_one_step_and_short_texts_are_sent(folder: Path) -> None:
    assert results(folder, [READ, READ]) == [TEXT, TEXT]
    (folder / "s.py").write_text("short\n")
    short = ("read_file", {"path": "s.py"})
    assert results(folder, [short], [short]) == ["short\n", "short\n"]
    error = ("read_file", {"path": "no" * 600})
    assert SAME not in "".join(results(folder, [error], [error]))


@pytest.mark.matrix
def test_a_command_that_fails_in_the_same_words_is_referred_to_with_its_status(folder: Path) -> None:
    fails = ("bash", {"command": "cat a.py; exit 3"})
    edit = ("edit_file", {"path": "a.py", "edits": [{"old": "value_7 =", "new": "value_seven ="}]})
    other = ("bash", {"command": "cat a.py; exit 4"})
    shown = results(folder, [fails], [fails], [other], [fails], [edit], [fails], [fails])
    again = "If that result is no longer there, run the command again."
    told = f"{SAME}: the result of bash cat a.py; exit 3 above is the same. {again}]\n[exit status 3]"
    assert shown[0] == TEXT + "[exit status 3]" and shown[2] == TEXT + "[exit status 4]"
    assert shown[1] == shown[3] == shown[6] == told
    assert shown[5] == TEXT.replace("value_7 =", "value_seven =") + "[exit status 3]"


@pytest.mark.matrix
def test_text_that_may_leave_the_window_before_it_is_referred_to_is_sent_again(folder: Path) -> None:
    """The window is nearly full when the file is read for the second time."""
    read_again: list[str] = []

    def script(request: Request) -> Answer:
        said = [str(message.get("content")) for message in request.messages]
        if len(said) == 2:
            return [READ]
        if read_again:
            return "done"
        if "the context window is nearly full" in said[-1]:
            read_again.append(said[-1])
            return [READ]
        return [("bash", {"command": f"seq {len(said)}000 {len(said)}150"})]

    provider = Played(script)
    settings = Settings(models={MODEL: {"window": 16_000}})
    options = Options(folder, MODEL, allow="all", limits=Limits(max_steps=60))
    assert say(open_session(options, settings, approver=None, provider=provider), "look")[1].ok
    assert read_again and str(provider.seen[-1][-1]["content"]).startswith(TEXT)


@pytest.mark.matrix
@pytest.mark.parametrize("seed", some(range(4), 4))
def test_whoever_follows_the_reference_has_the_text_whatever_the_window_lost(seed: int, tmp_path: Path) -> None:
    """The window is so small that it is pruned, truncated or summarized all the time."""
    chance, texts, referred = random.Random(seed), dict[str, str](), 0
    names = ["a.py", "b.py", "c.py"]
    for name in names:
        texts[name] = "".join(f"{name}_{number} = {chance.random()}\n" for number in range(120))
        (tmp_path / name).write_text(texts[name])
    asked: list[str] = []
    again: list[str] = []

    def script(request: Request) -> Answer:
        nonlocal referred
        sent = [json.loads(json.dumps(message)) for message in request.messages]
        told = [str(one["content"]) for one in sent if one["role"] == "tool"]
        if asked and sent[-1]["role"] == "user":  # a summary is asked for
            return "They were read."
        if asked and asked[-1] and told:
            name, last = asked[-1], told[-1]
            if last.startswith(SAME):
                referred += 1
                if not any(texts[name] in one for one in told[:-1]):
                    assert name not in again, "the text is sent at the second request"
                    again.append(name)
                    return [("read_file", {"path": name})]
            else:
                assert texts[name] in last or "left out: recall(" in last, last[:200]
        again.clear()
        if len(asked) >= 80:
            return "done"
        if chance.random() < 0.5:
            asked.append("")
            return [("bash", {"command": f"seq {len(asked)} {chance.randrange(3000)}"})]
        name = chance.choice([one for one in names if one not in asked[-1:]])
        if chance.random() < 0.2:
            texts[name] = texts[name].replace(" = ", f" = {chance.random()} or ", 1)
            (tmp_path / name).write_text(texts[name])
        asked.append(name)
        return [("read_file", {"path": name})]

    settings = Settings(models={MODEL: {"window": 20_000}})
    options = Options(tmp_path, MODEL, allow="all", limits=Limits(max_steps=400))
    _, ended = say(open_session(options, settings, approver=None, provider=Played(script)), "look")
    assert ended.ok, ended.error
    assert len(asked) == 80 and referred > 3
