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
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from screens import jobs
from screens.picture import PALETTES, Scene, film, svg
from server.script import Source
from terminal.emulator import Cell
from terminal.golden import SECONDS, ULID
from terminal.repl import SETTINGS, Place, Repl, place
from terminal.terminal import ENTER, NEXUS, Terminal

import nexus_cli
from nexus_cli.ledger import Ledger

HERE = Path(__file__).parent
ROOT = Path(tempfile.gettempdir()) / f"nexus-{os.getpid():07d}"
"""Its name is part of what the model is told: of one length, so that the figures stay the same."""
CHECKOUT = Path(nexus_cli.__file__).resolve().parent.parent
MODEL = "openai/gpt-5.6"
STEADY = f"""
from pathlib import Path
from nexus_cli.config import paths
from nexus_cli.sections.contributors import clock
from nexus_cli.ui.render import tool_line
paths.PACKAGE = Path({str(ROOT)!r}) / "checkout/nexus_cli"
clock.DAYS = ("Wednesday",) * 7
tool_line._SLOW = 3600.0
"""
"""Run in the program first: the model is told the folder of its defaults and the day of the week, whose names differ in
length, and how long a call took moves its line."""
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
SHELL = r"\[\e[1;32m\]$\[\e[0m\] "
PLAN = (
    'nexus schedule add "run the tests, fix what fails, push it as branch nightly" \\',
    '--name nightly --cron "0 3 * * *" --allow auto --rule "bash(git push -q origin nightly)"',
)
"""What a person types in a shell, in two lines."""
MORNING = (
    "# cron calls 'nexus serve --once'; the next morning:",
    "nexus runs list",
    "git show --stat --format=%s nightly",
)
AGENT = re.compile(r"\b[0-9a-z]{6}(?=-w\d\b)")
MOMENT = re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b")
UNTIL = re.compile(r"(?<=\(in )\d[^)]*")
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
def shop(script: Source = SCRIPT, files: Mapping[str, str] = FILES) -> Iterator[Place]:
    """The project of the pictures under version control, and its model."""
    ROOT.mkdir()
    (ROOT / "checkout").symlink_to(CHECKOUT)
    try:
        with place(ROOT, script, name="bookshop") as here:
            for name, text in files.items():
                (here.folder / name).write_text(text)
            git(here, "init", "-q", "-b", "main")
            here.environment["NEXUS_MODEL"] = MODEL
            yield here
    finally:
        shutil.rmtree(ROOT)


def git(here: Place, *words: str) -> None:
    """A command of git in the project."""
    subprocess.run(["git", *words], cwd=here.folder, env=here.environment, check=True)


def commit(here: Place, words: str) -> None:
    """Everything in the project as a commit."""
    (here.folder / ".gitignore").write_text("__pycache__/\n")
    git(here, "config", "user.name", "Ana")
    git(here, "config", "user.email", "ana@example.org")
    git(here, "add", ".")
    git(here, "commit", "-qm", words)


def masked(row: Sequence[Cell]) -> list[Cell]:
    """The row with the same ids, times and places in every run and on every machine."""
    text = "".join(cell.data or JOINED for cell in row)
    if len(text) != len(row):
        return list(row)
    text = ULID.sub(lambda found: "01JEXAMPLE0000000000000000", text)
    text = SECONDS.sub(lambda found: re.sub(r"\d", "1", found[0]), text)
    text = INSTALLED.sub(lambda found: "defaults/NEXUS.md".ljust(len(found[0])), text)
    text = AGENT.sub("swift1", MOMENT.sub("2027-01-31 03:00", text))
    text = UNTIL.sub("8 h 15 min", text)[: len(row)].ljust(len(row))
    return [cell._replace(data=letter) if cell.data else cell for cell, letter in zip(row, text, strict=True)]


def draw(repl: Terminal, path: Path, *, theme: str = "dark", cursor: bool = True) -> None:
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


SCENES = (
    ("clean up the build files", "/undo to revert", 2.2),
    ("/undo", "src/idea.py", 2.6),
    ("!!ls -A . src", "[exit status", 2.2),
)
"""What is typed in the moving picture, what it waits for, and how long that is shown, in seconds."""
WIPED = [
    step(0, "", "bash", command="rm -rf src && git clean -fdX"),
    step(1, "I removed `src` and everything that git ignores."),
]


def uncommitted(here: Place) -> None:
    """Put work into the project that no commit has."""
    (here.folder / "src").mkdir()
    (here.folder / "src/cart.py").write_text(FILES["cart.py"])
    commit(here, "A cart")
    (here.folder / ".gitignore").write_text("__pycache__/\n.env\nshop.db\n")
    (here.folder / "src/idea.py").write_text("# not committed yet\n")
    for name in (".env", "shop.db"):
        (here.folder / name).write_text("the only copy\n" * 20)


def taken_back(here: Place, path: Path) -> None:
    """A turn removes what nobody has a copy of, and is taken back."""
    uncommitted(here)
    with Repl(here, "--allow", "auto", rows=60, columns=100, bug=STEADY) as repl:
        repl.ready()
        for line in ("clean up the build files", "!!ls -A", "/undo", "!!ls -A . src"):
            repl.send(line + ENTER)
            repl.wait_quiet(1.0)
            repl.idle()
        draw(repl, path)


def moving(here: Place, path: Path) -> None:
    """The same in ten seconds."""
    uncommitted(here)
    scenes: list[Scene] = []
    with Repl(here, "--allow", "auto", rows=22, columns=80, bug=STEADY) as repl:

        def shoot(seconds: float) -> None:
            repl.wait_quiet(0.3)
            scenes.append(Scene([masked(row) for row in repl.cells()], seconds, repl.cursor))

        repl.ready()
        shoot(0.8)
        for line, seen, seconds in SCENES:
            size = len(line) if line.startswith("!") else 6  # a menu would open behind the path
            for start in range(0, len(line), size):
                repl.send(line[start : start + size])
                if not line.startswith("!"):
                    shoot(0.2)
            repl.send(ENTER)
            repl.wait_for(seen)
            repl.idle()
            shoot(seconds)
    path.write_text(film(scenes, title="nexus"))


def night(here: Place, path: Path) -> None:
    """A plan is added in the evening, runs at three, and is told of in the morning."""
    commit(here, "A shop")
    git(here, "init", "-q", "--bare", str(ROOT / "origin.git"))
    git(here, "remote", "add", "origin", str(ROOT / "origin.git"))
    program = f"{Path(NEXUS).parent}{os.pathsep}{here.environment['PATH']}"
    environment = here.environment | {"PATH": program, "PS1": SHELL, "TZ": "UTC"}
    environment |= {"GIT_PAGER": "cat", "HISTFILE": os.devnull}
    command = ["bash", "--norc", "--noprofile", "-i"]
    with Terminal(command, columns=100, rows=40, env=environment, cwd=here.folder) as shell:

        def types(*keys: str) -> None:
            before = shell.cursor[1]
            for line in keys:
                shell.send(line)
                shell.wait_quiet(0.3)
            shell.wait_for(lambda one: one.cursor[1] > before and one.lines()[one.cursor[1]] == "$")

        shell.wait_for("$")
        types(*(line + ENTER for line in PLAN))
        (here.folder / "price.py").write_text(jobs.PRICE.replace("1.19", "1.16"))
        commit(here, "Lower the tax")
        with closing(Ledger.open(here.nexus_home / "data" / "ledger.db")) as ledger:
            ledger.plans.change(1, next_at=time.time() - 1.0)
        subprocess.run([NEXUS, "serve", "--once"], cwd=here.folder, env=environment, check=True, capture_output=True)
        for line in MORNING:
            types(line + ENTER)
        shell.send("nexus" + ENTER)
        shell.wait_for("while you were away")
        shell.wait_for("k of 906k")
        shell.wait_quiet(0.5)
        draw(shell, path)
        types("/exit" + ENTER)  # the folder goes as soon as it has ended


def record_sessions(folder: Path) -> None:
    """What a person sees in a session of their own."""
    with shop() as here, Repl(here, "--allow", "auto", rows=70, bug=STEADY) as repl:
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
    with shop() as here, Repl(here, "--allow", "auto", rows=90, columns=40, bug=STEADY) as repl:
        work(repl)
        draw(repl, folder / "narrow.svg")
    with shop(WIPED, {}) as here:
        taken_back(here, folder / "taken_back.svg")
    with shop(WIPED, {}) as here:
        moving(here, folder / "moving.svg")
    with shop() as here:
        here.settings(SETTINGS + '[ui]\ntheme = "light"\n')
        with Repl(here, "--allow", "auto", rows=70, bug=STEADY) as repl:
            work(repl)
            draw(repl, folder / "light.svg", theme="light")


def record_jobs(folder: Path) -> None:
    """Work that others do: at night, or for a manager. Needs a sandbox."""
    with shop(jobs.works_at_night, jobs.NIGHT) as here:
        night(here, folder / "night.svg")
    with shop(jobs.manages, jobs.SHOP) as here:
        commit(here, "A cart")
        with Repl(here, "--allow", "auto", rows=90, columns=100, bug=STEADY) as repl:
            repl.ready()
            repl.say(jobs.ASKED)
            draw(repl, folder / "manager.svg")


if __name__ == "__main__":
    for record in (record_sessions, record_jobs):
        record(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
