"""What a newcomer does wrong, and what nexus answers: a line or two with the next step, and a status of the table.

The answers stand in `mistakes.txt`. `python tests/program/test_mistakes.py` writes them anew: read what has changed.
"""

from __future__ import annotations

import re
import shlex
import signal
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parent.parent))

from program.mistakes import MISTAKES, Mistake
from program.stage import Done, Stage, end, stage, together, until
from search import sample, variant

from nexus_cli.core.errors import EXIT_STATUS

GOLDEN = Path(__file__).with_name("mistakes.txt")
MEND = "read the new words; if they are better: python tests/program/test_mistakes.py writes them into the file"
NEXT_STEP = re.compile(r"nexus: .+?[^.]\. \S.*[.?]|nexus: .+: install it, .+")
"""WHAT: WHY. HINT."""
MASKS = (
    (
        re.compile(
            r"\b0[0-9A-HJKMNP-TV-Z]{12,25}\b|(?:(?<=session )|(?<=fork )|(?<=--session ))[0-9A-HJKMNP-TV-Z]{6}\b"
        ),
        "ID",
    ),
    (re.compile(r"(?<=127\.0\.0\.1:)\d{4,}"), "PORT"),
    (re.compile(r"(?<=its limit of )[\d,]+|\b\d[\d,]*(?= for these| margin| tokens[,;] the|\. Nothing)"), "N"),
)
"""What differs from run to run."""


def run(place: Stage, mistake: Mistake) -> Done:
    """How the command line of `mistake` ended."""
    for name, content in mistake.files.items():
        (place.folder / name).write_bytes(content)
    place.settings(mistake.settings)
    around: Any = mistake.around(place) if mistake.around else nullcontext({})
    with around as env:
        options: dict[str, Any] = {"env": {**mistake.env, **env}, "bug": mistake.code}
        if not mistake.interrupted:
            return place.run(*mistake.line, stdin=mistake.stdin, **options)
        child = place.begin(*mistake.line, **options)
        try:
            assert until(lambda: bool(place.server.requests) and place.server.requests[0].sent > 500)
            child.send_signal(signal.SIGINT)
            stdout, stderr = child.communicate(timeout=120)
        finally:
            end(child)
        return Done(child.returncode, stdout, stderr)


def answer(root: Path, mistake: Mistake) -> str:
    """What a person sees of `mistake`, as it stands in the file."""
    with stage(root, mistake.script) as place:
        done = run(place, mistake)
        shown = f"## {mistake.name}\n$ {shlex.join(('nexus', *mistake.line))}\n{done.text}{done.stderr.decode()}"
        for folder, name in ((place.folder, "PROJECT"), (place.home, "HOME")):
            shown = shown.replace(str(folder.resolve()), name).replace(str(folder), name)
        for words, name in MASKS:
            shown = words.sub(name, shown)
        return f"{shown}[exit {done.status}]\n"


def expected() -> dict[str, str]:
    """The blocks of the file by the name of their mistake."""
    blocks = re.split(r"\n(?=## )", GOLDEN.read_text())
    return {block.partition("\n")[0].removeprefix("## "): block.rstrip("\n") + "\n" for block in blocks}


def test_the_file_has_every_mistake_once() -> None:
    names = [mistake.name for mistake in MISTAKES]
    assert len(names) == len(set(names)) >= 60 and list(expected()) == names, MEND


@pytest.mark.parametrize("name", expected())
def test_an_answer_is_a_line_or_two_with_the_next_step_and_a_status_of_the_table(name: str) -> None:
    *lines, last = expected()[name].splitlines()[2:]
    status = int(last.removeprefix("[exit ").removesuffix("]"))
    told = [line for line in lines if line.startswith("nexus: ")]
    assert 1 <= len(told) <= 2 and "Traceback" not in "".join(lines)
    assert status in {0, *EXIT_STATUS.values()}
    if status:
        assert NEXT_STEP.fullmatch(told[-1]) or lines[-1].startswith("Resume with: "), told[-1]
        assert not any(line.startswith("answer") for line in lines)


ROWS = sample([pytest.param(mistake, id=mistake.name) for mistake in MISTAKES if not mistake.dear], 6)
DEAR = [variant(pytest.param(mistake, id=mistake.name)) for mistake in MISTAKES if mistake.dear]


@pytest.mark.parametrize("mistake", [*ROWS, *DEAR])
def test_a_mistake_is_answered_as_the_file_says(tmp_path: Path, mistake: Mistake) -> None:
    if mistake.linux and sys.platform != "linux":
        pytest.skip("Linux only")
    seen, before = answer(tmp_path, mistake), expected()[mistake.name]
    assert seen == before, f"{MEND}\nwas:\n{before}\nis:\n{seen}"


def main() -> None:
    """Write the file anew."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [(Path(folder) / str(number), mistake) for number, mistake in enumerate(MISTAKES)]
        GOLDEN.write_text("\n".join(together(lambda row: answer(*row), rows)))


if __name__ == "__main__":
    main()
