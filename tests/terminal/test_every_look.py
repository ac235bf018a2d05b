"""Every screen that a person meets, at each width and in each look: four programs side by side take one walk.

`expected/screens_WIDTH.txt` has the words of all screens. They are the same on a dark and on a light background and
without colours; a dumb terminal has `screens_dumb_WIDTH.txt`. `expected/looks_LOOK.txt` has the colours of the screens
where colour says something. `SCREENS=write` writes what the walk meets.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from project_files import commit_all
from search import sample
from terminal.golden import SHORT_ID, check, styled
from terminal.repl import RESTS, SETTINGS, Place, Repl
from terminal.stories import SHOP, tool_call
from terminal.terminal import ENTER, ESCAPE, Terminal, ctrl

from nexus_cli.ui.render.theme import UNICODE

LOOKS: dict[str, tuple[str, dict[str, str]]] = {
    "dark": ("", {}),
    "light": ('[ui]\ntheme = "light"\n', {}),
    "no_color": ("", {"NO_COLOR": "1"}),
    "dumb": ("", {"TERM": "dumb"}),
}
UNREADABLE = {
    "dark": re.compile("black|blue|brightblack"),
    "light": re.compile("brown|yellow|white|cyan|bright.*"),
    "no_color": re.compile("(?!default).*"),
}
"""Colours that some common palette makes unreadable on that background; without colours all of them."""
COLOURED = ("questions", "running", "turn", "diff", "menu", "picker", "context", "worker asks", "worker", "worker done")
"""Screens whose colours are kept, at 100 columns."""
REPORTS = ("context", "cost", "usage", "agents")
"""Screens that count tokens."""
MASKS: list[tuple[re.Pattern[str], str]] = [
    (re.compile(r"(?m)\b[0-9A-HJKMNP-TV-Z]{6}(?=\]?$)"), "......"),
    (SHORT_ID, "......"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b"), "0000-00-00 00:00"),
    (re.compile(r"(?m)(?<= · )/.*$"), "/..."),
    (re.compile(r"\b(just now|\d+ (seconds?|minutes?) ago)"), "just now"),
    (re.compile(f"(?m)^((?:\\[\\w+\\|)?)[{UNICODE.frames}]"), r"\1~"),
    (re.compile(r"(?<=[ |])- (?=of 112k)"), "0k "),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:00000"),
    (re.compile(r"\$0\.\d+"), "$0.00"),
    (re.compile(r"(?<=/tmp/nexus-)\w{8}"), "........"),
    (re.compile(r"\b100%(?= cached)"), "99%"),
    (re.compile(r"(?s)(?<=\nhost  )       .*?(?=\ntools )|(?<=\nproject  )    .*?(?=\nmemory )"), " ..."),
]
"""What differs from run to run, beside what every kept screen is masked for."""
WIDE = re.compile(r"(?<=\S) {2,}")
"""Between columns, which are as wide as what they hold."""
FIGURES: list[tuple[re.Pattern[str], str]] = [
    (re.compile(r"\d[\d,.]*[kM]?"), "0"),
    (re.compile(r"(?m)^  [ ▁▂▃▄▅▆▇█#]+\n"), ""),
    (re.compile(r"([█▓▒░▔#+.^-])\1+"), r"\1"),
    (re.compile(r"(?s)(?<=\nby project:\n).*"), "..."),
]
"""Of reports that count tokens: the request names the folder, which is another one each time."""
OTHERS = {
    "usage": (("usage",), ("by project",)),
    "login": (("login", "openai"), ("Key (not shown):", "nothing was stored")),
    "tour": (("tour",), ("Enter to continue", "Enter to send")),
}
"""Commands outside of a session, and what their screens end with. There `NO_COLOR` leaves no bold either."""
NO_TIMES = "from nexus_cli.ui.render import tool_line; tool_line._SLOW = 1000.0"
"""A time that only a slow machine shows would cut the line of a command shorter."""
HOLD = "until [ -e .git/go ]; do sleep 0.05; done; echo 2 failed"


def story() -> list[Any]:
    """What the model does: a turn with every kind of call, an answer that breaks off, work that a worker does."""
    edit = {"old": "names):\n", "new": "names, share=0):\n"}
    looks = [tool_call("read_file", path="shop.py"), tool_call("read_file", path="shop.py", limit=2)]
    looks += [tool_call("grep", pattern="tea"), tool_call("glob", pattern="**/*.py")]
    asked = [
        tool_call("edit_file", path="shop.py", edits=[edit]),
        tool_call("bash", command=HOLD),
        tool_call("bash", command="sh -c 'exit 3'"),
    ]
    return [
        {"text": "I look at it first.", "calls": looks},
        {"calls": asked},
        "The **share** is an argument of the total now.\n\n- no tests\n\n```python\ntotal(1)\n```",
        *[{"text": "half of an answer", "chunk": 3, "fault": {"kind": "cut", "after": 3}}] * 2,
        {"calls": [tool_call("agent", task="Count the shelves\nand say what is on each")]},
        {"calls": [tool_call("bash", command=HOLD)]},
        "There are **two** shelves.\n\nOne has tea, one has milk.\nNothing else.",
        "Two shelves: tea, and milk.",
    ]


@dataclass
class Walk:
    """One program on its way through the screens, and what was met."""

    made: Repl
    look: str
    options: dict[str, Any]
    """How its programs are started."""
    screens: list[str] = field(default_factory=list)
    """The rows of every screen, each under its name."""
    styles: list[str] = field(default_factory=list)
    """The styled rows of `COLOURED`."""
    bold: list[str] = field(default_factory=list)
    """What is bold, screen by screen."""
    before: list[str] = field(default_factory=list)
    """The rows of the screen before, where they still are."""

    def send(self, command: str) -> None:
        """Type `command` on an empty screen; a dumb terminal goes on below."""
        if not self.made.dumb:
            self.made.send(ctrl("l"))
            self.made.wait_for(lambda made: next(filter(None, made.lines()), "").startswith(">"))
            self.before = []
        self.made.send(command)

    def rows(self) -> list[str]:
        """All rows; of a dumb terminal all that were printed, without the prompt, which may come before or after."""
        if not self.made.dumb:
            return self.made.lines()
        printed = (row.removeprefix("> ") for row in self.made.scrollback())
        return [row for row in printed if row not in ("", ">")]

    def meet(self, name: str, wanted: str) -> None:
        """Keep the screen as `name`, from the first row that is new, once `wanted` is there and nothing moves."""
        met = len(self.before) if self.made.dumb else 0
        self.made.wait_for(lambda made: wanted in "\n".join(filter(None, self.rows()[met:])))
        self.made.wait_quiet(0.2 if self.made.dumb else 0.1)
        cells = self.made.cells()
        rows = self.rows()
        same = (old == new for old, new in zip(self.before, rows, strict=False))
        new = next((at for at, equal in enumerate(same) if not equal), len(self.before))
        self.before = rows
        self.screens += [f"== {name}", *masked(name, rows[new:])]
        if self.made.dumb:
            return
        kinds = {cell for row in cells for cell in row}
        wrong = {cell.fg for cell in kinds if UNREADABLE[self.look].fullmatch(cell.fg)}
        wrong |= {f"on {cell.bg}" for cell in kinds if cell.bg != "default"}
        assert not wrong, f"{name}, {self.look}: {wrong}\n" + "\n".join(styled(cells))
        if name not in OTHERS:
            bold = "".join(cell.data for row in cells for cell in row if cell.bold)
            self.bold += [f"== {name}", *masked("context", bold.split("\n"))]
        if name in COLOURED:
            self.styles += [f"== {name}", *masked(name, styled(cells[new:]))]


def masked(name: str, rows: list[str]) -> list[str]:
    """The rows that are not empty, without what differs from run to run."""
    text = "\n".join(filter(None, rows))
    more = [*(FIGURES if name in REPORTS else ()), (WIDE, "  ")]
    for pattern, instead in [*MASKS, *(more if name in (*REPORTS, "picker") else ())]:
        text = pattern.sub(instead, f"\n{text}").removeprefix("\n")
    return text.split("\n")


def take_turn(walk: Walk) -> None:
    """A turn: its questions, a call that runs while another waits, what stays of it, and an answer that breaks off."""
    made = walk.made
    made.say("add a share" if made.dumb else "add a share\nto the total", ends=False)
    made.asked_about("edit_file")
    walk.meet("questions", "or type what")
    made.send("y" + ENTER * made.dumb)
    made.wait_for("2 of 3")
    made.asked_about("bash")
    walk.meet("question", "2 of 3")
    made.send("A" + ENTER)
    if not made.dumb:
        walk.meet("running", "● bash until")
    (made.folder / ".git/go").touch()
    walk.meet("turn", "· 3 steps")
    (made.folder / ".git/go").unlink()
    walk.send("again" + ENTER)
    walk.meet("broken", "/continue to resume it")


def show_reports(walk: Walk) -> None:
    """What the commands say."""
    wanted = {
        "context": "/context all",
        "cost": "is estimated",
        "diff": "share",
        "status": "skills ",
        "config limits.max_steps": "Your file",
    }
    for command, end in wanted.items():
        walk.send(f"/{command}{ENTER}")
        walk.meet(command.split()[0], end)


def press_keys(walk: Walk) -> None:
    """What single keys show."""
    walk.send("/")
    walk.meet("menu", "/context")
    walk.made.send("\x7f")
    walk.send("?")
    walk.meet("keys", "Shift+Tab")
    walk.send(ESCAPE)
    walk.meet("edit", "press Esc again")
    walk.made.send(ESCAPE)
    walk.made.wait_for("Go back to which message?")
    walk.made.send(ENTER)
    walk.meet("edited", "Edit the message and send it again.")
    walk.made.send(ctrl("c"))


def change_sessions(walk: Walk) -> None:
    """A new session, the list to pick from, and the old one as it was."""
    dumb = walk.made.dumb
    walk.send("/new" + ENTER)
    walk.meet("new", "Previous session")
    walk.send("/resume" + ENTER)
    walk.meet("picker", "Number (Enter" if dumb else "> add a share")
    walk.send("1" + ENTER) if dumb else walk.made.send(ENTER)
    walk.meet("resumed", "/continue to resume it." if dumb else "total(1)")
    walk.send("/transcript" + ENTER)
    walk.meet("transcript", "total(1)" if dumb else "total(1)\n```\n>\ngpt-4o")  # the prompt is back


def hand_over(walk: Walk) -> None:
    """A worker: its question, what it does, what stays of it, and the list of workers."""
    made = walk.made
    walk.send("count the shelves" + ENTER)
    if not made.dumb:
        made.asked_about("bash")
    walk.meet("worker asks", "to do instead")
    made.wait_quiet(RESTS)
    made.send("y" + ENTER * made.dumb)
    if not made.dumb:
        walk.meet("worker", "bash until")
    (made.folder / ".git/go").touch()
    walk.meet("worker done", "· with workers ")
    made.idle()
    walk.send("/agents" + ENTER)
    walk.meet("agents", "review ID")


def run_others(walk: Walk, *names: str) -> None:
    """What a person meets outside of a session: their usage, a key that is asked for, how the tour begins."""
    here, env = walk.made.place, walk.options["env"]
    for name in names:
        words, ends = OTHERS[name]
        keyless = {"OPENAI_API_KEY": None} if name == "login" else {}
        with Repl(here, *words, **walk.options | {"env": {**env, **keyless, "TMPDIR": "/tmp"}}) as walk.made:
            walk.before = []
            for end in ends:
                walk.meet(name, end)
                walk.made.send(ENTER)


def walked(walk: Walk) -> Walk:
    """The walk, at its end; what needs no session of it runs beside it."""
    other = Walk(walk.made, walk.look, walk.options)
    with ThreadPoolExecutor(1) as beside:
        done = beside.submit(run_others, other, "login", "tour")
        walk.made.ready()
        take_turn(walk)
        show_reports(walk)
        if not walk.made.dumb:
            press_keys(walk)
        change_sessions(walk)
        session = walk.made, walk.before
        run_others(walk, "usage")
        walk.made, walk.before = session
        hand_over(walk)
        done.result()
    walk.screens += other.screens
    return walk


@pytest.mark.parametrize("width", sample([60, 100, 160], 3, 1))
def test_every_screen_in_every_look_is_as_it_was_found_right(
    width: int, places: Callable[..., Place], opened: Callable[[Terminal], Terminal]
) -> None:
    walks = []
    for look, (settings, env) in LOOKS.items():
        here = places(story())
        here.settings(SETTINGS + settings)
        (here.folder / "shop.py").write_text(SHOP)
        commit(here)
        options: dict[str, Any] = {"columns": width, "rows": 90, "env": {"PAGER": "cat", **env}, "bug": NO_TIMES}
        made = Repl(here, **options)
        opened(made)
        walks.append(Walk(made, look, options))
    with ThreadPoolExecutor(len(walks)) as threads:
        dark, light, no_color, dumb = threads.map(walked, walks)
    check(f"screens_{width}", dark.screens)
    check(f"screens_{width}", light.screens)
    check(f"screens_{width}", no_color.screens)
    check(f"screens_dumb_{width}", dumb.screens)
    assert dark.bold == light.bold == no_color.bold, "bold says the same in every look"
    if width == 100:
        for walk in (dark, light, no_color):
            check(f"looks_{walk.look}", walk.styles)


def commit(here: Place) -> None:
    """Put the project under version control, with what it holds."""
    commit_all(here.folder)
