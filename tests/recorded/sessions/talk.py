"""One-shots: a turn of one process, from an answer alone to streams that break."""

from __future__ import annotations

from recorded.person import Person
from recorded.sessions.answers import CUT, SHOP, call, calls

SCHEMA = '{"type": "object", "properties": {"price": {"type": "integer"}}, "required": ["price"]}'


def an_edit(p: Person) -> None:
    """Reads together, an edit, a command that fails, an answer."""
    p.file("shop.py", SHOP)
    p.model(
        {"text": "I look.", **calls(("read_file", {"path": "shop.py"}), ("glob", {"pattern": "**/*.py"}))},
        call("edit_file", path="shop.py", edits=[{"old": '"tea": 4', "new": '"tea": 5'}]),
        call("bash", command="sh -c 'echo no tests here; exit 3'"),
        "Tea costs 5. There are no tests.",
    )
    p.nexus("ask", "--allow", "all", "make tea cost 5")


def an_answer(p: Person) -> None:
    """An answer without a call, in a folder without files; then the same question with `--no-save`."""
    p.model("Blue.", "Still blue.")
    p.nexus("ask", "which colour has the sky?")
    p.nexus("ask", "--no-save", "which colour has the sky?")


def a_pipe(p: Person) -> None:
    """Words with a piped text and attached files, of which one by its lines; then the piped text alone."""
    p.file("shop.py", SHOP)
    p.model("It adds prices.", "A list of three.")
    p.nexus("ask", "-f", "shop.py:4-5", "-f", "shop.py", "what is this?", stdin=b"+ tea\n- coffee\n")
    p.nexus("ask", stdin="one\ntwo\nthr\u00e9e\n".encode())


def a_schema(p: Person) -> None:
    """An answer that does not match its schema, and is asked for again."""
    p.model("It costs 4.", '{"price": "4"}', '{"price": 4}')
    p.nexus("ask", "--schema", SCHEMA, "what does tea cost?")


def calls_that_cannot_run(p: Person) -> None:
    """Arguments that are no JSON, no object or of a wrong type, an unknown tool, one id for two calls."""
    p.file("shop.py", SHOP)
    p.model(
        calls(("read_file", '{"path": "shop'), ("read_file", "[1]"), ("read_file", {"path": 5}), ("fly", {"to": "x"})),
        {**calls(("read_file", {"path": "shop.py"}), ("read_file", {"path": "gone.py"})), "ids": "same"},
        "That went wrong.",
    )
    p.nexus("ask", "read it")


def calls_that_are_refused(p: Person) -> None:
    """An edit, a command and a read outside the project at the level `ask`, then the same refused call five times."""
    p.file("shop.py", SHOP)
    wanted = call("write_file", path="new.py", content="x = 1\n")
    p.model(calls(("write_file", {"path": "new.py", "content": "x = 1\n"}), ("bash", {"command": "touch made"})), "No.")
    p.nexus("ask", "write it")
    p.model(*[wanted] * 6)
    p.nexus("ask", "--json", "write it anyway", exits=3)


def an_output_too_long(p: Person) -> None:
    """Output above the cap, cut in its middle; the model reads the hole back."""
    p.model(
        call("bash", command="seq 40000"), call("recall", id="d1"), call("recall", id="d1", range="100:110"), "Seen."
    )
    p.nexus("ask", "--allow", "all", "count")


def until_a_command_passes(p: Person) -> None:
    """`--until`: the work goes on until a command exits 0."""
    p.model("I think it is done.", call("write_file", path="built", content="yes\n"), "Now it is.")
    p.nexus("ask", "--allow", "all", "--until", "test -e built", "build it")


def without_tools(p: Person) -> None:
    """`--no-tools`: the tools are offered, and every call is refused."""
    p.model(call("glob", pattern="*"), "I may not look.")
    p.nexus("ask", "--no-tools", "what is here?")


def a_limit_of_steps(p: Person) -> None:
    """`--max-steps`: the turn stops short, and a second one goes on."""
    p.model(call("glob", pattern="*"), call("glob", pattern="*.py"), "Nothing is here.")
    p.nexus("ask", "--max-steps", "2", "look", exits=3)
    p.nexus("ask", "-c", "go on")


def many_items(p: Person) -> None:
    """`nexus map`: one turn for each file, one after the other."""
    p.file("a.txt", "apple\n")
    p.file("b.txt", "pear\n")
    p.model("red", "green")
    p.nexus("map", "-j", "1", "which colour?", "a.txt", "b.txt")


def streams_that_break(p: Person) -> None:
    """503, 429 and a reset before the first word are tried again; a cut answer is asked for again, then resumed."""
    p.model({"fault": {"status": 503, "retry_after": "0"}}, "After one try.")
    p.nexus("ask", "try")
    p.model(
        {"fault": {"status": 429, "retry_after": "0"}}, {"fault": {"status": 429, "retry_after": "0"}}, "After two."
    )
    p.nexus("ask", "-c", "try again")
    p.model({"fault": {"kind": "reset", "after": -1}}, "After a reset.")
    p.nexus("ask", "-c", "once more")
    p.model(CUT, {"text": "half again", "chunk": 3, "fault": {"kind": "cut", "after": 2}})
    p.nexus("ask", "-c", "at length", exits=1)
    p.model("and its other half.")
    p.nexus("ask", "-c", "go on")


def answers_that_end_badly(p: Person) -> None:
    """No finish reason, an empty answer, an error inside the stream, the length, a filter, a call cut off."""
    for last in (
        {"text": "no end", "fault": "no_finish"},
        {"fault": "empty"},
        {"text": "so far", "fault": {"kind": "error_later", "after": 1, "status": 400}},
        {"text": "too long", "finish": "length"},
        {"text": "not that", "finish": "content_filter"},
        {"calls": [{"name": "glob", "arguments": '{"patt'}], "finish": "length"},
    ):
        p.model(last, default="Better.")
        p.nexus("ask", *(["-c"] if p.steps else []), "say it", exits=None)
    p.model("Good.")
    p.nexus("ask", "-c", "and now?")


SESSIONS = (
    an_edit,
    an_answer,
    a_pipe,
    a_schema,
    calls_that_cannot_run,
    calls_that_are_refused,
    an_output_too_long,
    until_a_command_passes,
    without_tools,
    a_limit_of_steps,
    many_items,
    streams_that_break,
    answers_that_end_badly,
)
