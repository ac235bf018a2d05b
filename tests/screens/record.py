"""Makes the pictures of this folder: plays a session of the installed program in a terminal, and draws what it shows.

`python tests/screens/record.py [FOLDER]` writes them beside itself, or to FOLDER. The model is scripted and says so in
its answers' figures alone; the program, its tools and the terminal are the real ones. Times and ids are masked.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from screens.picture import PALETTES, svg
from terminal.emulator import Cell
from terminal.golden import SECONDS, ULID
from terminal.repl import SETTINGS, Place, Repl, place

import nexus_cli

HERE = Path(__file__).parent
ROOT = Path(tempfile.gettempdir()) / f"nexus-{os.getpid():07d}"
"""Its name is part of what the model is told: of one length, so that the figures stay the same."""
CHECKOUT = Path(nexus_cli.__file__).resolve().parent.parent
STEADY = f"""
from pathlib import Path
from nexus_cli.config import paths
from nexus_cli.ui.render import tool_line
paths.PACKAGE = Path({str(ROOT)!r}) / "checkout/nexus_cli"
tool_line._SLOW = 3600.0
"""
"""Run in the program first: the model is told the folder of its defaults, and how long a call took moves its line."""
FILES = {
    "cart.py": (
        'PRICES = {"novel": 12.0, "atlas": 30.0, "comic": 8.0}\n\n\n'
        "def total(books, discount=0):\n"
        '    """What the books cost; discount is a share, from 0 to 1."""\n'
        "    return sum(PRICES[book] for book in books) * discount\n"
    ),
    "test_cart.py": (
        "import unittest\n\nfrom cart import total\n\n\n"
        "class Total(unittest.TestCase):\n"
        "    def test_without_discount(self):\n"
        '        self.assertEqual(total(["novel", "comic"]), 20)\n\n'
        "    def test_with_discount(self):\n"
        '        self.assertEqual(total(["atlas"], 0.5), 15)\n'
    ),
}
TESTS = "python3 -m unittest -q"
ANSWER = """The cart multiplied by the discount itself, so that *no discount* made everything free.

| call | before | now |
|---|---:|---:|
| `total(["novel", "comic"])` | 0 | 20 |
| `total(["atlas"], 0.5)` | 15 | 15 |

It takes the part that **remains** now, and both tests pass:

```python
return sum(PRICES[book] for book in books) * (1 - discount)
```
"""
EDIT = {
    "path": "cart.py",
    "edits": [{"old": "for book in books) * discount", "new": "for book in books) * (1 - discount)"}],
}
JOINED = "\0"
INSTALLED = re.compile(r"/\S*/NEXUS\.md|(?<=always sent, )/\S*…")
PROMPT = "the cart is free of charge without a discount, find out why"


def step(number: int, text: str = "", name: str = "", **arguments: Any) -> dict[str, Any]:
    """A step of the model with the figures that it reports."""
    seen = 1400 + 260 * number
    usage = {"input": seen, "output": 60 + 20 * number, "cache_read": (seen - 260) // 128 * 128 if number else 0}
    calls = [{"name": name, "arguments": arguments}] if name else []
    return {"text": text, "calls": calls, "usage": usage}


SCRIPT = [
    step(0, "I read the code and run its tests first.", "read_file", path="cart.py"),
    step(1, "", "bash", command=TESTS),
    step(2, "The discount is applied the wrong way round.", "edit_file", **EDIT),
    step(3, "", "bash", command=TESTS),
    step(4, ANSWER),
]


@contextmanager
def shop() -> Iterator[Place]:
    """The project of the pictures under version control, and its model."""
    ROOT.mkdir()
    (ROOT / "checkout").symlink_to(CHECKOUT)
    try:
        with place(ROOT, SCRIPT, name="bookshop") as here:
            for name, text in FILES.items():
                (here.folder / name).write_text(text)
            subprocess.run(["git", "init", "-q", "-b", "main"], cwd=here.folder, env=here.environment, check=True)
            yield here
    finally:
        shutil.rmtree(ROOT)


def masked(row: Sequence[Cell]) -> list[Cell]:
    """The row with the same ids, times and places in every run and on every machine."""
    text = "".join(cell.data or JOINED for cell in row)
    if len(text) != len(row):
        return list(row)
    text = ULID.sub(lambda found: "01JEXAMPLE0000000000000000", text)
    text = SECONDS.sub(lambda found: re.sub(r"\d", "1", found[0]), text)
    text = INSTALLED.sub(lambda found: "defaults/NEXUS.md".ljust(len(found[0])), text)
    return [cell._replace(data=letter) if cell.data else cell for cell, letter in zip(row, text, strict=True)]


def draw(repl: Repl, path: Path, *, theme: str = "dark", cursor: bool = True) -> None:
    """The screen of `repl` as a picture, as high as what stands on it."""
    cells = [masked(row) for row in repl.cells()]
    last = max((number for number, row in enumerate(cells) if any(cell.data.strip() for cell in row)), default=0)
    place_of_cursor = repl.cursor if cursor else None
    path.write_text(svg(cells[: last + 1], title="nexus", palette=PALETTES[theme], cursor=place_of_cursor))


def work(repl: Repl) -> None:
    """The whole of the story."""
    repl.ready()
    repl.say(PROMPT, ends=False)
    repl.requested(len(SCRIPT))
    repl.idle()


def up_to_the_edit(repl: Repl) -> None:
    """The story up to the question about the edit; the command before it is allowed."""
    repl.ready()
    repl.say(PROMPT, ends=False)
    repl.asked_about("bash")
    repl.send("y")
    repl.asked_about("edit_file")
    repl.wait_quiet(0.1)


def record(folder: Path) -> None:
    """All pictures."""
    with shop() as here, Repl(here, "--allow", "all", rows=70, bug=STEADY) as repl:
        work(repl)
        draw(repl, folder / "session.svg")
        repl.send("\x0c/context\r")
        repl.idle()
        draw(repl, folder / "context.svg")
        repl.send("\x0c/context all\r")
        repl.idle()
        draw(repl, folder / "context_all.svg")
    with shop() as here, Repl(here, rows=40, bug=STEADY) as repl:
        up_to_the_edit(repl)
        draw(repl, folder / "approval.svg")
    with shop() as here, Repl(here, "--allow", "all", rows=90, columns=40, bug=STEADY) as repl:
        work(repl)
        draw(repl, folder / "narrow.svg")
    with shop() as here:
        here.settings(SETTINGS + '[ui]\ntheme = "light"\n')
        with Repl(here, "--allow", "all", rows=70, bug=STEADY) as repl:
            work(repl)
            draw(repl, folder / "light.svg", theme="light")


if __name__ == "__main__":
    record(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
