"""Text of a model or a project on which an expression that goes back takes hours, each in a process that is ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from search import sample

MANY = 200_000
CASES = {
    "arrows": ("from nexus_cli.text.untrusted_text import neutralize as run", "\u2190" * MANY),
    "arrows apart": ("from nexus_cli.text.untrusted_text import neutralize as run", "<- " * MANY),
    "carriage returns": ("from nexus_cli.tools.files import split_lines as run", "\r" * MANY + "x\r" * 9 + "\n"),
    "carriage returns before an end": ("from nexus_cli.tools.files import split_lines as run", "\r" * MANY + "\n"),
    "carriage returns in an edit": (
        "from nexus_cli.tools.cancellable_thread import StopFlag\n"
        "from nexus_cli.tools.exact_edit import describe_nearest\n"
        "run = lambda text: describe_nearest(text, 'a\\nb', StopFlag())",
        "\r" * MANY + "x",
    ),
    "names before a refusal": (
        "from nexus_cli.sandbox.denial import _WRITE\nrun = lambda text: list(_WRITE.finditer(text[-20_000:]))",
        "a." * MANY,
    ),
    "a table's line": (
        "from nexus_cli.ui.render.markdown_blocks import DELIMITER\nrun = DELIMITER.match",
        "-" + " " * MANY + "x",
    ),
    "changes in sed": ("from nexus_cli.rules.foreign_code import is_plain_sed as run", "s///;" * 1990 + "w x"),
    "blanks in sed": ("from nexus_cli.rules.foreign_code import is_plain_sed as run", "p; " * 390 + " " * 9000 + "w x"),
    "brackets of a test": (
        "from pathlib import Path\nfrom nexus_cli.rules.decide import decide_command\n"
        "from nexus_cli.rules.rule_set import RuleSet, parse_rule\n"
        "from nexus_cli.tools.registry import discover_tools\n"
        "rules = RuleSet((parse_rule('deny', 'bash(rm *)', discover_tools()),))\n"
        "run = lambda text: decide_command(\n"
        "    text, level='auto', rules=rules, cwd=Path('/'), project=Path('/'), confined=True)",
        "test '" + "[" * 60_000 + "'",
    ),
}


@pytest.mark.matrix
@pytest.mark.parametrize("name", sample(CASES, 3))
def test_no_text_hangs(name: str) -> None:
    program, text = CASES[name]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{program}\nrun(sys.stdin.buffer.read().decode())\nprint('ended')"],
        input=text.encode(),
        capture_output=True,
        timeout=120,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.stdout == b"ended\n", done.stderr.decode()
