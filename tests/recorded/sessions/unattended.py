"""Work that nobody watches: runs that wait, plans, spaces, the server, workers."""

from __future__ import annotations

from recorded.person import Person
from recorded.sessions.answers import SHOP, call, calls, rule

SPACE = "Project Alpha"
TASKS = ("TASK ONE: name the file", "TASK TWO: count it")


def a_run_that_waits(p: Person) -> None:
    """A turn that waits for a file, and goes on in `nexus serve --once` when it has changed."""
    p.model(rules=(rule("CI has passed.", contains="Continue from here"),), default=call("wait_for", file="ci.log"))
    p.nexus("ask", "tell me how CI ends", exits=3)
    p.nexus("serve", "--once")
    p.file("ci.log", "passed\n")
    p.nexus("serve", "--once")


def a_run_resumed_by_hand(p: Person) -> None:
    """A turn that waits for a file and is resumed as it is."""
    p.model(
        rules=(rule("I looked at it as it is.", contains="Continue from here"),),
        default=call("wait_for", file="ci.log"),
    )
    p.nexus("ask", "wait", exits=3)
    p.nexus("runs", "resume", "run-1")


def a_plan(p: Person) -> None:
    """A plan that comes due, twice: the second run has the report of the first; between them a time that is missed."""
    p.model(call("glob", pattern="*"), "Nothing is here.", "Still nothing.")
    p.nexus("schedule", "add", "look after the build", "--cron", "0 10 * * *", "--zone", "UTC", "--name", "Daily")
    p.later(hours=1)
    p.nexus("serve", "--once")
    p.later(days=3)
    p.nexus("serve", "--once")


def an_approval(p: Person) -> None:
    """A run that waits for the person's answer to an edit."""
    edit = call("write_file", path="made", content="x")
    p.model(rules=(rule(edit, last_role="user"),), default="It is made.")
    p.nexus("schedule", "add", "make it", "--in", "1h", "--ask", "--name", "Make")
    p.nexus("schedule", "run", "Make", exits=None)
    p.nexus("runs", "resume", "run-1", "--answer", "yes")


def a_space(p: Person) -> None:
    """Ana asks Bob and waits, Bob answers, Ana tells the person."""
    p.nexus("space", "create", SPACE, "--member", "Sarah", "--agent", "Ana", "--agent", "Bob")
    bob = call("send_message", text="@Ana 1, 2, 3")
    p.model(
        rules=(
            rule("I told her.", anywhere='name: "Bob"', last_role="tool"),
            rule(bob, anywhere='name: "Bob"'),
            rule("All is said.", anywhere="RESUME", last_role="tool"),
            rule(call("send_message", text="The figures are 1, 2, 3."), anywhere="RESUME"),
        ),
        default=call("send_message", text="@Bob the figures?", wait=True),
    )
    p.nexus("space", "post", SPACE, "@Ana get the figures")
    p.nexus("serve", "--once")
    p.nexus("space", "read", SPACE)


def a_member_that_waits(p: Person) -> None:
    """A plain session asks a member of a space and waits for the answer."""
    p.nexus("space", "create", SPACE, "--member", "Sarah", "--agent", "nexus")
    p.model(
        rules=(rule("She said yes.", contains="RESUME"),),
        default=call("send_message", text="@Sarah shall we ship?", space=SPACE, wait=True),
    )
    p.nexus("ask", "--allow", "edit", "ask Sarah whether we ship", exits=3)
    p.nexus("space", "post", SPACE, "--as", "Sarah", "@nexus yes")
    p.nexus("serve", "--once")


def served(p: Person) -> None:
    """Two agents of `nexus serve`, one with a text of its own, and a compaction."""
    p.file("shop.py", SHOP)
    p.model(call("read_file", path="shop.py"), "Tea costs 4.", "Oui.", "Again.")
    with p.serving() as ask:
        ask("create_agent", agent_id="a", cwd=str(p.folder))
        ask("create_agent", agent_id="b", cwd=str(p.folder), system_prompt="Answer in French.")
        ask("send", agent_id="a", content="what does tea cost?")
        ask("send", agent_id="b", content="is it true?")
        ask("send", agent_id="a", content="say it again")


def workers(p: Person) -> None:
    """Two workers side by side, of two steps each."""
    p.file("shop.py", SHOP)
    hands = calls(*(("agent", {"task": task}) for task in TASKS))
    p.model(
        rules=(
            rule(hands, contains="hand over", last_role="user"),
            rule(call("glob", pattern="*.py"), contains=TASKS[0], last_role="user"),
            rule(call("read_file", path="shop.py"), contains=TASKS[1], last_role="user"),
            rule("it is shop.py", anywhere="# Task\n" + TASKS[0], last_role="tool"),
            rule("five lines", anywhere="# Task\n" + TASKS[1], last_role="tool"),
        ),
        default="Both are done.",
    )
    p.nexus("ask", "hand over", side_by_side=True)


def a_worker_in_a_worktree(p: Person) -> None:
    """A worker changes a copy of the project; the session looks at its diff and applies it."""
    p.file("shop.py", SHOP)
    p.repository()
    task = "TASK ONE: make tea cost 5"
    edit = call("edit_file", path="shop.py", edits=[{"old": "4", "new": "5"}])
    p.model(
        call("agent", task=task, worktree=True),
        edit,
        "Tea costs 5.",
        call("agents", action="diff", agent="w1"),
        call("agents", action="apply", agent="w1"),
        "Applied.",
    )
    p.nexus("ask", "--allow", "all", "hand it over")


SESSIONS = (
    a_run_that_waits,
    a_run_resumed_by_hand,
    a_plan,
    an_approval,
    a_space,
    a_member_that_waits,
    served,
    workers,
    a_worker_in_a_worktree,
)
