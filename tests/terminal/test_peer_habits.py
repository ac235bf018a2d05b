"""Who comes from another agent: the first ten things typed there either work here, or one line names what does it."""

from __future__ import annotations

import subprocess
import time
from typing import Any

import pytest
from terminal.repl import Opens, Repl
from terminal.stories import SHOP, call
from terminal.terminal import ENTER, ESCAPE, UP, ctrl

SHIFT_TAB = "\x1b[Z"
FILES = {"shop.py": SHOP}


def habit(made: Repl, keys: str, answer: str) -> None:
    """Type `keys`; another line with `answer` appears."""
    before = made.times(answer)
    made.send(keys)
    made.wait_for(lambda one: made.times(answer) > before)
    made.wait_quiet(0.1)


def sent(made: Repl) -> str:
    """The newest message of a person that the model was given."""
    messages: list[dict[str, Any]] = made.server.requests[-1].body["messages"]
    return str([one["content"] for one in messages if one["role"] == "user"][-1])


def test_from_claude_code(repl: Opens) -> None:
    script = [call("bash", command="touch a; sleep 30"), "The till is done.", "That is a shop.", "NEXUS.md is written."]
    made = repl(script, files=FILES, rows=40, columns=120)
    made.say("mend the till", ends=False)
    made.asked_about("bash")
    made.send("y")
    made.wait_for("esc to stop")
    habit(made, ESCAPE, "stopped")
    time.sleep(1.6)  # right after the Esc that stopped the turn another one means the same
    habit(made, ESCAPE, "press Esc again")
    time.sleep(0.2)
    habit(made, ESCAPE, "Go back to which message?")
    habit(made, ENTER, "Edit the message and send it again.")
    made.say(" today")
    assert sent(made).endswith("mend the till today")
    habit(made, SHIFT_TAB, "· edit ·")
    habit(made, "?", "Shift+Tab")
    habit(made, "/clear" + ENTER, "Previous session: /resume")
    habit(made, "/resume" + ENTER, "> mend the till")
    habit(made, ENTER, "The till is done.")
    habit(made, "!ls" + ENTER, "shop.py")
    made.say("what is @shop.py")
    assert SHOP in sent(made)
    habit(made, ctrl("r") + "till", "mend the till today")
    made.send(ctrl("c"))
    made.say("/init")
    assert "NEXUS.md" in sent(made) and made.times("NEXUS.md is written.")
    habit(made, "/rewind" + ENTER, "Rewind to before which message?")


@pytest.mark.matrix
def test_from_codex(repl: Opens) -> None:
    commands = [call("bash", command=f"echo {word} > said") for word in ("one", "two", "two", "three")]
    made = repl(
        [*commands, "All three.", "I see the change.", call("bash", command="touch a; sleep 30")],
        files=FILES,
        rows=40,
        columns=120,
    )
    subprocess.run(["git", "init", "-q"], cwd=made.folder, env=made.place.environment, check=True)
    made.say("count", ends=False)
    for key in ("y", "s\r", "n not that\r"):
        made.asked_about("bash")
        made.send(key)
        made.wait_for(lambda one: not any(line.startswith("Run this?") for line in one.lines()))
    made.wait_for("All three.")
    assert len(made.server.requests) == 5
    made.idle()
    habit(made, "/status" + ENTER, "openai/gpt-4o")
    habit(made, "/diff" + ENTER, "shop.py")
    made.say("/review")
    assert SHOP.splitlines()[0] in sent(made)
    habit(made, "/approvals" + ENTER, "everything else needs approval")
    habit(made, "/mention" + ENTER, "@FILE in a message")
    made.say("wait", ends=False)
    made.asked_about("bash")
    made.send("y")
    made.wait_for("esc to stop")
    habit(made, ctrl("c"), "stopped")
    habit(made, "/new" + ENTER, "Previous session: /resume")
    made.send("/quit" + ENTER)
    assert made.status() == 0


@pytest.mark.matrix
def test_a_prompt_in_place_of_a_command_starts_a_session_with_it(repl: Opens) -> None:
    made = repl(["That is a shop.", "It sells."], files=FILES, arguments=("--allow", "ask", "what is @shop.py", "-q"))
    made.wait_for("That is a shop.")
    made.idle()
    assert SHOP in sent(made)
    habit(made, UP, "> what is @shop.py")
    made.send(ctrl("c"))
    made.send("/exit" + ENTER)
    assert made.status() == 0
    again = repl(at=made.place, arguments=("-c", "and what does it sell?"))
    again.wait_for("It sells.")
    assert sent(again).endswith("and what does it sell?") and len(again.server.requests) == 2
    again.send("/exit" + ENTER)
    assert again.status() == 0


@pytest.mark.matrix
def test_a_prompt_waits_for_the_session_that_is_picked(repl: Opens) -> None:
    made = repl(["Hello.", "It sells."], arguments=("say hello to me",))
    made.wait_for("Hello.")
    made.idle()
    made.send("/exit" + ENTER)
    assert made.status() == 0
    again = repl(at=made.place, arguments=("and what does it sell?", "-r"))
    again.wait_for("say hello to me")
    again.send(ENTER)
    again.wait_for("It sells.")
    assert "say hello to me" in str(again.server.requests[-1].body) and sent(again).endswith("what does it sell?")
    again.send("/exit" + ENTER)
    assert again.status() == 0
