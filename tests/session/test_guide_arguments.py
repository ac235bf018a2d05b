"""Arguments of a guide in a command are words of the shell, and never more."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from guide_files import COMMAND, SKILL, read_guide
from hypothesis import example, given
from hypothesis import strategies as st

from nexus_cli.config.foreign_items import split_commands
from nexus_cli.config.trust_items import TrustItem
from nexus_cli.core.elide import one_line
from nexus_cli.guides.skills import GuideKind, Skill
from nexus_cli.reports.trust import describe_item
from nexus_cli.session.skill_guides import NAMED_BY_VALUE, _Expansion, _named_files

ARGUMENT = "a;echo${IFS}INJ $(echo INJ) ' \" `echo INJ`"
NONE: Any = None
"""What filling in arguments does not look at: the session."""
GUIDE = Skill("g", "", "g.md", b"", "personal")


@pytest.mark.parametrize(
    "command",
    ["printf %s $1", 'printf %s "$1"', "printf %s x$1'y'", 'printf %s "a"$1"b"', 'printf %s "$ARGUMENTS"'],
)
def test_an_argument_is_one_word(command: str) -> None:
    given = ARGUMENT if "ARGUMENTS" in command else shlex.quote(ARGUMENT)
    called = _Expansion(NONE, GUIDE, given)
    filled = called._fill(command, quote=True)
    assert not called.is_unsure(command)
    done = subprocess.run(["sh", "-c", filled], capture_output=True, text=True, check=True)
    assert ARGUMENT in done.stdout


@pytest.mark.parametrize("command", ["echo '$1'", 'echo "a $1"', 'echo "$(echo "$1")"', 'echo "$(echo a $ARGUMENTS)"'])
def test_an_argument_within_other_quotes_is_refused(command: str) -> None:
    assert _Expansion(NONE, GUIDE, shlex.quote(ARGUMENT)).is_unsure(command)


def test_a_sign_without_an_argument_belongs_to_the_shell() -> None:
    called = _Expansion(NONE, GUIDE, "a")
    line = """printf 'x y\\n' | awk '{print $2}'; echo "$3" $1"""
    assert not called.is_unsure(line) and called._fill(line, quote=True) == line.replace("$1", "a")


def test_existing_files_that_a_guide_mentions_are_attached_once_and_those_of_a_command_line_are_not(
    tmp_path: Path,
) -> None:
    for name in ("a.py", "b.md", "c.txt"):
        (tmp_path / name).write_text("x")
    text = "Compare @a.py with @b.md, then @a.py again; @gone.py, mail@b.md and !`cat @c.txt` do not count."
    assert list(_named_files(text, tmp_path)) == ["a.py", "b.md"]


def test_an_argument_names_a_file_that_is_attached_if_it_is_one_plain_path(tmp_path: Path) -> None:
    def named(text: str, arguments: str) -> list[str]:
        state: Any = SimpleNamespace(dispatcher=SimpleNamespace(cwd=tmp_path))
        called = _Expansion(state, replace(GUIDE, path=str(tmp_path / "g.md")), arguments)
        return list(_named_files(NAMED_BY_VALUE.sub(called._fill_name, text), tmp_path))

    (tmp_path / "src").mkdir()
    for name in ("a.py", "b.md", "src/part05.js"):
        (tmp_path / name).write_text("x")
    assert named("Check @src/part$1.js, and @src/$2.", "05 part05.js") == ["src/part05.js"]
    assert named("Compare @$1 with @$2.", "a.py b.md") == ["a.py", "b.md"]
    assert named("See @$ARGUMENTS and @$9/b.md.", "a.py") == ["a.py"]
    assert named("See @${CLAUDE_SKILL_DIR}/b.md.", "") == [f"{tmp_path}/b.md"]
    for arguments in ("'a.py @b.md'", "'x !`@b.md`'", "gone.py", ""):
        assert named("See @$1.", arguments) == []
    assert named("See $1 and $ARGUMENTS.", "@a.py") == []


def test_the_commands_of_a_guide_are_in_lines_and_in_blocks_of_their_own() -> None:
    text = "a !`one` b\n```!\ntwo `x`\nthree\n```\n  ```! \n  four\n  ```\nc\n```sh\n!`five`\n```\nd ```!\nno ```\n"
    assert split_commands(text) == [
        "a ",
        "one",
        " b\n",
        "two `x`\nthree",
        "\n",
        "four",
        "\nc\n```sh\n",
        "five",
        "\n```\nd ```!\nno ```\n",
    ]
    assert split_commands("```!\nopen") == ["```!\nopen"] and split_commands("") == [""]
    block = TrustItem("command", "two", {"two.md": b"```!\ntwo\nthree\n```\nand !`four`\n"}, "two.md")
    assert describe_item(block) == "runs two \u2424 three; runs four", "as the person who trusts a project reads them"
    quoted = "Write:\n````md\n```!\na\n```\n!`b`\n````\n"
    assert split_commands(f"```!\n```\nProse.\n```!\n\n```\n{quoted}!`c`\n")[1::2] == ["c"]


LINES = ("```!", "```", "````md", "````", "!`a b`", "echo $1", "---", "allowed-tools: Bash(ls:*)", "", "Prose.")
ENDS = ("\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028", " ")


@given(
    st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from(ENDS)), max_size=12),
    st.sampled_from(("utf-8", "utf-8-sig", "utf-16", "latin-1")),
    st.sampled_from((SKILL, COMMAND)),
)
@example(
    [("---", "\r\n"), ("a: b", "\r\n"), ("---", "\r\n"), ("```!", "\r\n"), ("ls", "\r\n"), ("```", "")],
    "utf-8",
    COMMAND,
)
@example([("```!", "\r\n"), ("ls", "\r\n"), ("```", "")], "utf-16", COMMAND)
def test_every_command_of_a_guide_is_shown_before_it_is_trusted(
    lines: list[tuple[str, str]], encoding: str, kind: GuideKind
) -> None:
    data = "".join(line + end for line, end in lines).encode(encoding, "ignore")
    runs = split_commands(read_guide(Skill("g", "", "g.md", data, "project", kind=kind)))[1::2]
    assert runs == ["ls"] or "ls" not in dict(lines)
    shown = describe_item(TrustItem(kind, "g", {"g.md": data}, "g.md"))
    assert [one.removeprefix("runs ") for one in shown.split("; ") if one.startswith("runs ")] == [*map(one_line, runs)]
    long = "x" * 2_000
    assert long in describe_item(TrustItem(kind, "g", {"g.md": f"!`{long}`".encode()}, "g.md"))
