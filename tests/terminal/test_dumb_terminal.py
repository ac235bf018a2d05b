"""A terminal without a cursor: a line answers a question, and several at once do not."""

from __future__ import annotations

from terminal.repl import Opens
from terminal.stories import call


def test_in_a_dumb_terminal_a_line_answers_a_question_and_several_at_once_do_not(repl: Opens) -> None:
    words = ("yes", "always", "always", "no", "words", "last")
    script = [call("bash", command=f"echo {word} >> ran") for word in words]
    made = repl([*script, "All done.", "Then done."], rows=100, env={"TERM": "dumb"})
    made.say("run them", ends=False)
    for word, answer in (("yes", "y"), ("always", "a"), ("no", "n not now"), ("words", "use make instead")):
        made.wait_for(f"echo {word} >> ran")
        made.asked_about("bash")
        made.send(f"{answer}\r")
    made.wait_for("echo last >> ran")
    made.asked_about("bash")
    made.send("y\rand this\r")
    made.wait_for("Pasted lines do not answer the question.")
    assert (made.folder / "ran").read_text().split() == ["yes", "always", "always"]
    made.asked_about("bash")
    made.send("y\r")
    made.wait_for("All done.")
    made.say("")
    made.wait_for("Then done.")
    results = made.server.requests[-1].results
    assert (made.folder / "ran").read_text().split() == ["yes", "always", "always", "last"]
    assert "Declined" in results[3] and "use make instead" in results[4]
    assert made.server.requests[-1].body["messages"][-1]["content"].endswith("y\nand this")
    assert b"\x1b" not in made.raw
