"""What only a person at a terminal does: steering, queueing, stopping, pasting, questions, slash commands."""

from __future__ import annotations

from recorded.person import Person
from recorded.sessions.answers import SHOP, call
from terminal.terminal import ALT_ENTER, ENTER, ESCAPE

WAITS = "touch begun; until [ -e go ]; do sleep 0.1; done; echo woke"


def steered(p: Person) -> None:
    """Words typed while a command runs are sent after it; others, queued, begin the next turn."""
    p.model(call("bash", command=WAITS), "I use the other file.", "And the tests pass.")
    with p.terminal("--allow", "all") as seat:
        with seat.doing("> go; while it runs: use the other file; queued: then the tests", 3):
            seat.type("go")
            seat.until_file("begun")
            seat.type("use the other file")
            seat.screen.wait_for("sending after this step: use the other file")
            seat.screen.send("then the tests" + ALT_ENTER)
            seat.screen.wait_for("queued: then the tests")
            (p.folder / "go").touch()
        seat.say("thanks")


def a_talk(p: Person) -> None:
    """Two turns, an attached file, a long paste, a shell command that is shared and one that is not."""
    p.file("shop.py", SHOP)
    p.model(default={"text": "Fine", "numbered": True})
    with p.terminal("--allow", "all") as seat:
        seat.say("what is in @shop.py ?")
        seat.say("!echo shared", 0)
        seat.say("!!echo private", 0)
        with seat.doing("> (40 pasted lines) what is this?", 1):
            seat.screen.paste("".join(f"pasted {number}\r" for number in range(40)))
            seat.screen.wait_quiet(0.3)
            seat.type(" what is this?")


def interrupted(p: Person) -> None:
    """Esc in the middle of an answer, and in the middle of a command; then another turn."""
    p.model({"text": "half of an answer", "fault": {"kind": "stall", "seconds": 600, "after": 1}, "chunk": 4})
    with p.terminal("--allow", "all") as seat:
        with seat.doing("> tell me; Esc after the first word", 1):
            seat.type("tell me")
            seat.screen.wait_for("half")
            seat.screen.send(ESCAPE)
            seat.screen.wait_for("Interrupted.")
        p.model(call("bash", command="touch begun; sleep 600"), "As you like.")
        with seat.doing("> run it; Esc while the command runs", 1):
            seat.type("run it")
            seat.until_file("begun")
            seat.screen.send(ESCAPE)
            seat.screen.wait_for(lambda one: sum("Interrupted." in line for line in one.scrollback()) == 2)
        seat.say("and now?")


def questions(p: Person) -> None:
    """An edit that is allowed, one that is declined with words, a command that is declined; then the level changes."""
    p.file("shop.py", SHOP)
    p.model(
        call("edit_file", path="shop.py", edits=[{"old": "4", "new": "5"}]),
        call("write_file", path="new.py", content="x = 1\n"),
        call("bash", command="touch made"),
        "One of three was done.",
    )
    with p.terminal() as seat:
        with seat.doing("> change it; y, words, n", 3):
            seat.type("change it")
            seat.answer("y", "shop.py")
            seat.answer("call it old.py", "new.py")
            seat.answer("n", "touch made")
        seat.say("/permissions edit", 0)
        seat.say("and now?")


def rewound(p: Person) -> None:
    """Three turns, back to before the second one with its files, its words again, a fork, a new session."""
    p.file("shop.py", SHOP)
    p.model(
        "One.",
        call("edit_file", path="shop.py", edits=[{"old": "4", "new": "5"}]),
        "Two.",
        "Three.",
        default={"text": "Later", "numbered": True},
    )
    with p.terminal("--allow", "all") as seat:
        seat.say("first")
        seat.say("second", 2)
        seat.say("third")
        with seat.doing("> /rewind 2; Enter", 0):
            seat.type("/rewind 2")
            seat.screen.wait_for("what do you want to revert?")
            seat.screen.wait_quiet(0.3)
            seat.screen.send(ENTER)
            seat.screen.wait_for(lambda one: "what do you want to revert?" not in one.text)
        seat.say(" again")
        seat.say("/fork branch", 0)
        seat.say("in the fork")
        seat.say("/clear", 0)
        seat.say("in a new session")


SESSIONS = (steered, a_talk, interrupted, questions, rewound)
