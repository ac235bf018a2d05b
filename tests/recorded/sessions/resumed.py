"""Sessions of several processes: resumed, forked, killed."""

from __future__ import annotations

from recorded.person import Person
from recorded.sessions.answers import SHOP, call, calls


def resumed_next_day(p: Person) -> None:
    """Three processes, the last one on the next day, at another level and without tools."""
    p.file("shop.py", SHOP)
    p.model(call("read_file", path="shop.py"), "Tea costs 4.", "Add a test.", call("glob", pattern="*"), "Refused.")
    p.nexus("ask", "what does tea cost?")
    p.nexus("ask", "-c", "--allow", "edit", "what next?")
    p.later(days=1)
    p.nexus("ask", "-c", "--no-tools", "look again")


def resumed_with_another_model(p: Person) -> None:
    """Another model goes on: a new epoch; then the first one again."""
    p.file("shop.py", SHOP)
    p.model({"thinking": "Look.", **call("read_file", path="shop.py")}, "Tea costs 4.", "Indeed.", "Still.")
    p.nexus("ask", "what does tea cost?")
    p.nexus("ask", "-c", "-m", "openai/gpt-4o", "sure?")
    p.nexus("ask", "-c", "-m", "openai/scripted", "still sure?")


def forked(p: Person) -> None:
    """A copy of a session: both go on apart."""
    p.model("Tea.", "Green tea.", "Black tea.")
    p.nexus("ask", "what do we sell?")
    first = p.newest_session()
    p.nexus("sessions", "fork", first, "--name", "other")
    p.nexus("ask", "-r", "other", "which?")
    p.nexus("ask", "-r", first, "which?")


def killed(p: Person) -> None:
    """A process that is killed while a command runs; the next one says that its outcome is unknown."""
    p.model(calls(("bash", {"command": "touch begun; sleep 600"}), ("bash", {"command": "echo two"})))
    p.killed_at("begun", "ask", "--allow", "all", "run it")
    p.model("I see that it was killed.")
    p.nexus("ask", "-c", "go on")


def undone(p: Person) -> None:
    """An edit that the person takes back and brings back between turns."""
    p.file("shop.py", SHOP)
    p.model(call("edit_file", path="shop.py", edits=[{"old": "4", "new": "5"}]), "Done.", "So it costs 4.", "Now 5.")
    p.nexus("ask", "--allow", "edit", "make tea cost 5")
    p.nexus("undo")
    p.date("shop.py")
    p.nexus("ask", "-c", "I took that back")
    p.nexus("redo")
    p.date("shop.py")
    p.nexus("ask", "-c", "and brought it back")


SESSIONS = (resumed_next_day, resumed_with_another_model, forked, killed, undone)
