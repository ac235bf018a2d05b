"""Properties: nothing that runs one more command than the free ones is allowed, however the line is built."""

from __future__ import annotations

import os
import random
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rules.rows import DENIED, decide

from nexus_cli.rules.rule_set import RuleSet

FREE = st.sampled_from(["ls", "cat README.md", "grep -rn x src", "git status", "echo 'a b'", "wc -l *.py", "true"])
OTHER = st.sampled_from(["make", "npm test", "touch x", "./x", "python3 -c 1", "sort -o a b", "find . -delete", "$x"])
JOIN = st.sampled_from([" && ", " || ", "; ", " | ", " |& ", "\n", " & "])
WRAP = (
    "{}",
    "({})",
    "{{ {}; }}",
    "! {}",
    "time {}",
    "if true; then {}; fi",
    "for i in a; do {}; done",
    "while {}; do break; done",
    "f() {{ {}; }}; f",
    "echo $({})",
    'echo "$({})"',
    "echo `{}`",
    "cat <({})",
    "x=$({}) ls",
    "cat <<E\n$({})\nE",
    'cat <<< "$({})"',
    "case a in a) {};; esac",
    "echo ${{x:-$({})}}",
    "timeout 5 {}",
    "nice {}",
    "{} &",
    "coproc {}",
    "[[ -n $({}) ]]",
    "ls > >({})",
    "echo $(( $({}) ))",
    "2>/dev/null {}",
)
HERE = Path(__file__).parent


@given(st.lists(FREE, max_size=3), OTHER, st.lists(FREE, max_size=3), JOIN, st.lists(st.sampled_from(WRAP), max_size=3))
@settings(max_examples=200, deadline=None)
def test_a_line_with_one_other_command_is_never_allowed(
    before: list[str], other: str, after: list[str], join: str, wraps: list[str]
) -> None:
    for wrap in wraps:
        other = wrap.format(other)
    assert decide(join.join([*before, other, *after]), HERE, "ask", RuleSet()).decision == "ask"


def quote(name: str, how: random.Random) -> str:
    """Return `name` as bash reads it again, quoted letter by letter."""
    forms = (
        "{0}",
        "\\{0}",
        "'{0}'",
        '"{0}"',
        "$'{0}'",
        "$'\\x{1:02x}'",
        "$'\\{1:03o}'",
        "''{0}",
        '{0}""',
        "$'\\u{1:04x}'",
    )
    return "".join(how.choice(forms).format(letter, ord(letter)) for letter in name)


@pytest.mark.matrix
@given(st.randoms(use_true_random=False), st.sampled_from(["rm x", "git push", "curl x"]))
@settings(max_examples=300, deadline=None)
def test_a_denied_name_is_denied_however_it_is_quoted(how: random.Random, command: str) -> None:
    line = " ".join(quote(word, how) for word in command.split())
    for level in ("ask", "auto"):
        assert decide(line, HERE, level, DENIED).decision == "deny", line


STORED = (
    "eval {q}",
    "bash -c {q}",
    "sh -ec {q}",
    "bash <<< {q}",
    "bash <<'E'\n{c}\nE",
    "env {c}",
    "nohup {c}",
    "xargs {c}",
    "find . -maxdepth 0 -exec {c} \\;",
    "echo {q} | bash",
    "trap {q} EXIT",
    "command {c}",
    "exec {c}",
    "! ! {c}",
    "time ! {c}",
    "> /dev/null {c}",
    "x={q}; eval $x",
    "x='$({c})'; echo ${{x@P}}",
    "test -v 'a[$({c})]'",
    "printf -v 'a[$({c})]' x",
    "source /dev/stdin <<< {q}",
    "coproc N {{ {c}; }}",
    "$(echo {c})",
    "PS4='$({c})'; set -x; :",
    "cat <<A ; {c}\nx\nA",
    "echo ${{x:-`{c}`}}",
    "function f {{ {c}; }}; f",
    "timeout 5 {c}",
    "A=1 {c}",
    "ls # '\n{c}",
)


@pytest.mark.matrix
def test_what_bash_would_run_is_never_allowed(tmp_path: Path) -> None:
    """Lines of a grammar of hiding places, each run by bash where a stub stands for `rm` and says so."""
    stubs, project, said = tmp_path / "bin", tmp_path / "project", tmp_path / "said"
    stubs.mkdir()
    project.mkdir()
    (stubs / "rm").write_text(f"#!/bin/sh\necho x >> {said}\n")
    (stubs / "rm").chmod(0o755)
    how = random.Random(15)
    allowed = []
    for _ in range(1500):
        line = quote("rm", how) + " x"
        for _ in range(how.choice((1, 1, 2, 3))):
            wrap = how.choice((*WRAP, *STORED))
            line = wrap.format(line, c=line, q=shlex.quote(line)) if wrap in STORED else wrap.format(line)
        if decide(line, project, "auto", DENIED).decision == "allow":
            allowed.append(line)
    for line in allowed:  # few: those that bash does not run either
        environment = {"PATH": f"{stubs}:{os.defpath}", "HOME": str(tmp_path)}
        subprocess.run(
            ["bash", "-c", line],
            cwd=project,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
        )
        assert not said.exists(), line
    assert len(allowed) < 150


@pytest.mark.parametrize(
    "sign", ["\x00", "\x1b", "\r", "\x7f", "\x85", "\xa0", "\u200b", "\u202e", "\u2066", "\ufeff", "\u3164"]
)
def test_a_hidden_sign_asks_and_is_named(sign: str) -> None:
    for level in ("ask", "auto"):
        found = decide(f"ls{sign}", HERE, level, RuleSet())
        assert found.decision == "ask" and (f"U+{ord(sign):04X}" in found.why or sign == "\x00")


@pytest.mark.parametrize("word", ["a\\\nb", '$"a"', "=='a'", "]\\\n$'a'"])
def test_a_word_that_bash_may_join_or_split_asks(word: str) -> None:
    found = decide(f"ls {word}", HERE, "ask", RuleSet())
    assert found.decision == "ask" and "join or split" in found.why


@pytest.mark.parametrize("line", ["{ echo 'rm x'; } | sh", "ls | (echo 'rm x' | sh)", "echo 'rm x' 2>&1 | (sh | cat)"])
def test_what_a_group_or_a_pipeline_puts_out_is_the_input_of_a_shell_behind_it(tmp_path: Path, line: str) -> None:
    assert decide(line, tmp_path, "all").decision == "deny"


@pytest.mark.matrix
@pytest.mark.parametrize("option", ["-I X", "-IX", "--replace=X", "-0 -I X", "-rI X"])
def test_a_sign_of_xargs_that_stands_for_a_program_may_be_a_denied_one(tmp_path: Path, option: str) -> None:
    for line in (f"echo rm | xargs {option} X a", f"echo push | xargs {option} git X"):
        assert decide(line, tmp_path, "all").decision == "deny", line
        assert decide(line, tmp_path, "ask", RuleSet()).decision == "ask", line
    assert decide(f"ls | xargs {option} cat X", tmp_path, "ask", RuleSet()).decision == "allow"
