"""Which line of an output names the failure, for the tools that people use, and terminal sessions that were pasted."""

from __future__ import annotations

import pytest
from context.fidelity.evaluate import CORPUS
from context.fidelity.fit import CORPORA
from context.fidelity.fit_values import corpus, left_out, singles

from nexus_cli.context.fidelity import CommitmentKind, of_message
from nexus_cli.core.message import Message, Role, ToolCall

Kind = CommitmentKind

OUTPUTS = [
    ("go vet ./...", "cmd/a.go:48:3: fmt.Printf format %d has arg name of wrong type string", ["cmd/a.go:48:3"]),
    ("make", "/usr/bin/ld: region `RAM' overflowed by 212 bytes\ncollect2: error: ld returned 1 exit status", ["RAM"]),
    ("make", "make[1]: *** No rule to make target 'a.o', needed by 'b'.  Stop.\nmake: *** [b] Error 2", ["No rule"]),
    ("mvn verify", "[ERROR] Tests run: 9, Failures: 1\n[ERROR]   ATest.b:52 expected: <1> but was: <2>",
     ["ATest.b:52"]),
    ("git push",
     "remote: GitLab: You are not allowed to push.\n ! [remote rejected] a -> a (pre-receive hook declined)\n"
     "error: failed to push some refs to 'a'", ["not allowed"]),
    ("python a.py", "Traceback (most recent call last):\n  File \"a.py\", line 1\npay.SignatureMismatch: no match",
     ["pay.S"]),
    ("python a.py",
     "Traceback (most recent call last):\n  File \"a.py\"\nKeyError: 'a'\n\nDuring handling of the above "
     "exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"a.py\"\nAError: b",
     ["AError: b"]),
    ("./t", "==12==ERROR: AddressSanitizer: overflow on address 0x6\nSUMMARY: AddressSanitizer: overflow a.c:64",
     ["SUMMARY"]),
    ("java a", "2024-11-04 06:01:31 ERROR Application run failed\nCaused by: java.net.UnknownHostException: mq",
     ["Unknown"]),
    ("go test ./...", "--- FAIL: TestA (0.04s)\n    a_test.go:13: got 3, want 4\nFAIL\nFAIL\ta\t0.3s",
     ["TestA", "want 4"]),
    ("vitest run", "   × orders > rejects\n     → expected 400 but got 201\n Tests  1 failed (6)",
     ["rejects", "got 201"]),
    ("docker build .", "#7 611.8 [ERROR] Could not transfer artifact a: Read timed out\n------",
     ["Could not transfer"]),
    ("kubectl apply", 'The Deployment "web" is invalid: spec.image: Required value', ["is invalid"]),
    ("jq . a", "parse error: Expected separator between values at line 3", ["Expected separator"]),
    ("sed a", "sed: -e expression #1, char 8: odd ending", ["odd ending"]),
    ("ruby a.rb", "a.rb:3:in `foo': undefined method `bar' for nil:NilClass (NoMethodError)", ["undefined method"]),
    ("mysql a", "ERROR 1064 (42000) at line 3: You have an error in your SQL syntax", ["1064"]),
    ("gitleaks detect", "Finding: a\n9:41AM WRN leaks found: 1", []),
]


@pytest.mark.parametrize(("command", "output", "telling"), OUTPUTS, ids=[command for command, _, _ in OUTPUTS])
def test_one_line_of_an_output_names_the_failure(command: str, output: str, telling: list[str]) -> None:
    call = ToolCall("c1", "bash", {"command": command})
    found = of_message(1, Message(Role.TOOL, f"{output}\n[exit status 1]", tool_call_id="c1"), call)
    errors = [c.text for c in found if c.kind is Kind.ERROR]
    assert len(errors) == bool(telling)
    assert all(part in errors[0] for part in telling)


@pytest.mark.parametrize(
    ("text", "commands", "errors"),
    [
        ("make -j8 all\n[ 12%] core\nmake: *** No rule to make target 'a'.  Stop.\n\nwith -j1 it works",
         [("make -j8 all", None)],
         ["make: *** No rule to make target 'a'.  Stop."]),
        ("# sh -n a.sh; echo $?\n0\n# ./a.sh\na.sh: syntax error at line 31: `(' unexpected\n# echo $?\n2",
         [("sh -n a.sh", 0), ("./a.sh", 2)], ["a.sh: syntax error at line 31: `(' unexpected"]),
        ("db=# ALTER TABLE a VALIDATE CONSTRAINT b;\nERROR:  insert violates foreign key",
         [("ALTER TABLE a VALIDATE CONSTRAINT b;", None)], ["ERROR:  insert violates foreign key"]),
        ("$ ./a.sh\n./a.sh: line 71: JAVA_HOME: unbound variable", [("./a.sh", None)],
         ["./a.sh: line 71: JAVA_HOME: unbound variable"]),
        ("# Make it faster\nThe page takes 3 seconds.", [], []),
        ("make it faster\nand shorter, please", [], []),
        ('oh no, it says "Fatal error: Call to undefined function a()", is everything lost?', [],
         ["Fatal error: Call to undefined function a()"]),
        ("2024-11-04 07:00:00 INFO loaded 214 ERROR codes", [], []),
    ],
)
def test_a_session_that_was_pasted_tells_what_ran_and_what_failed(
    text: str, commands: list[tuple[str, int | None]], errors: list[str]
) -> None:
    found = of_message(1, Message(Role.USER, text))
    assert [(c.text, c.exit) for c in found if c.kind is Kind.COMMAND] == commands
    assert [c.text for c in found if c.kind is Kind.ERROR] == errors


def test_the_weights_of_values_carry_over_to_messages_that_they_were_not_fitted_to() -> None:
    paths = [CORPUS / f"{name}.jsonl" for name in CORPORA]
    score = left_out(paths[0], [*corpus(paths[1]), *corpus(paths[2]), *singles()])
    assert score.precision >= 0.8
    assert score.recall >= 0.6
