"""Type random keys at the REPL in a pseudo-terminal, end it in some way, and check what it left.

By hand: `python tests/fuzz/keys.py --seed 7 --times 20`. Keys arrive while replies, commands and questions come and go,
so a seed repeats what is typed, not always the fault.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

from fuzz.random_model import COMMANDS, make_reply  # noqa: E402  (found from tests/, as pytest finds it)
from fuzz.seeds import is_quiet, run_seeds  # noqa: E402
from fuzz.stored_sessions import KEPT, QUEUED, check, read_marks  # noqa: E402
from program.nursery import born  # noqa: E402
from program.stage import until  # noqa: E402
from terminal.repl import SETTINGS, Place, Repl, place  # noqa: E402
from terminal.terminal import ALT_ENTER, BACKSPACE, DOWN, ENTER, ESCAPE, LEFT, RIGHT, TAB, UP, ctrl  # noqa: E402

from nexus_cli.commands import discover  # noqa: E402

SIZES = ((1, 1), (2, 2), (3, 40), (12, 3), (40, 10), (80, 24), (80, 24), (132, 43), (300, 2))
KEYS = (
    *(ENTER, ENTER, ENTER, ESCAPE, ALT_ENTER, BACKSPACE, TAB, UP, DOWN, LEFT, RIGHT, "\\\r"),
    *map(ctrl, "aceeknorttuvwxyl_"),
    *"ynsaAN?1qj@/ \0\u4f60",
    *("e\u0301", "\U0001f468\u200d\U0001f469", "\x7f\x7f\x7f"),
    *(f"\x1b{one}" for one in ("[Z", "[3~", "[1;5D", "[5~", "[6~", "OP", "b", "[", "[13;2u", "[200~", "[201~")),
    *(f"\x1b{one}" for one in ("[<0;3;2M", "[<64;9;9M", "[M !!", "[I", "[O", "]0;x\x07", "[12;40R", "[?62c")),
)
"""Keys, and what a terminal says by itself: the mouse, the focus, where the cursor is."""
PASTES = ("one line", "two\nlines\n", "\x1b[31mred\x1b[0m\r\n", "word " * 3000, "l\n" * 400, "\t", "/help\n")
WORDS = "1 -1 0 all x notes.md @notes.md --json --help --last ask edit auto \u00e9\u4f60 /nowhere/x main".split()
WORDS += ["99999999999", '"unclosed', "bash(ls *)", "run-1", "w1", "provider.retries", "a\tb"]
BYTES = [one for one in range(256) if one not in b"!\x1c"]
"""Not what begins a line of the shell, nor Ctrl+\\, with which the kernel ends a program."""
STATUSES = (0, 1, 2, 3, 4, 75, 129, 130, 143)
PATIENCE = 60.0


def type_keys(terminal: Repl, chance: random.Random, count: int) -> None:
    """Type random things, until the program ends."""
    nouns = list(discover().values())
    for number in range(count):
        with suppress(OSError):  # it has ended meanwhile
            match chance.randint(0, 19):
                case 0 | 1 | 2 | 3:
                    terminal.send(f"mark{number} do it{chance.choice((ENTER, ENTER, ALT_ENTER))}")
                case 4 | 5 | 6:
                    noun = chance.choice(nouns)
                    verb = chance.choice([one.name for one in noun.verbs] or [""])
                    words = [noun.name, verb, *chance.sample(WORDS, chance.choice((0, 0, 1, 2)))]
                    terminal.send(f"{chance.choice(('', ctrl('u')))}/{' '.join(filter(None, words))}{ENTER}")
                case 7:
                    terminal.paste(chance.choice(PASTES))
                case 8:
                    terminal.resize(*chance.choice(SIZES))
                case 9:
                    terminal.send(f"{ctrl('u')}{chance.choice(('!', '!!'))}{chance.choice(COMMANDS)}{ENTER}")
                case 10:
                    terminal.send(bytes(chance.choice(BYTES) for _ in range(chance.randint(1, 12))))
                case 11:
                    time.sleep(chance.random())
                case 12 if chance.random() < 0.3:
                    terminal.send(ctrl("z"))
                    until(lambda: terminal.state() == "T", 2)  # a paste would wait for ever on a stopped program
                case 13 if chance.random() < 0.1:
                    terminal.send(ctrl("d"))
                case _:
                    terminal.send("".join(chance.choices(KEYS, k=chance.randint(1, 3))))
            time.sleep(chance.choice((0, 0, 0.02, 0.1)))
            wake(terminal)
        if terminal.ended:
            return


def wake(terminal: Repl) -> None:
    """Continue a program that Ctrl+Z has stopped."""
    if terminal.state() == "T":
        time.sleep(0.1)
        terminal.resume()


def leave(terminal: Repl) -> bool:
    """Leave as a person does who does not know what is open; False if the program does not end."""
    terminal.resize(80, 24)
    limit = time.monotonic() + PATIENCE
    with suppress(OSError):
        terminal.send("\x1b[201~")  # ends a paste that was begun
    while time.monotonic() < limit:
        for key in (ctrl("c"), ctrl("c"), ctrl("d")):
            with suppress(OSError):
                terminal.send(key)
            if until(lambda: terminal.ended or terminal.state() == "T", 0.7) and terminal.ended:
                return True
            wake(terminal)
    return False


def end_run(terminal: Repl, chance: random.Random, traces: Path) -> tuple[list[str], bool]:
    """End the program in some way; return the faults, and whether it was killed."""
    how = chance.choice(("leave", "leave", "leave", "kill", "kill", "term", "hang up"))
    if how == "kill" and not terminal.ended:
        terminal.signal(signal.SIGKILL)
        terminal.status()
        return [], True
    if how == "leave" or terminal.ended:
        ended = leave(terminal)
    elif how == "term":
        terminal.signal(signal.SIGTERM)
        ended = until(lambda: terminal.ended, PATIENCE)
    else:
        terminal.hang_up()
        ended = until(lambda: terminal.ended, PATIENCE)
    if not ended:
        terminal.signal(signal.SIGUSR2)
        time.sleep(1)
        return [f"it does not end ({how})\n{terminal.picture()}\n{traces.read_text()}"], True
    status = terminal.status()
    return ([] if status in STATUSES else [f"exit status {status} ({how})\n{terminal.picture()}"]), False


@contextmanager
def server_of(here: Place, is_used: bool) -> Iterator[tuple[str, ...]]:
    """Start `nexus serve`, if it is used; the arguments that connect to it."""
    if not is_used:
        yield ()
        return
    child = born(["serve", "--json"], env=here.environment, cwd=here.folder, stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        yield "--connect", str(json.loads(child.stdout.readline())["url"])
    finally:
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=120)
        child.stdout.close()


def play(root: Path, seed: int, count: int | None = None) -> list[str]:
    """Play the keys of a seed in an empty folder; return the faults."""
    chance = random.Random(seed)
    replies = random.Random(seed)
    faults: list[str] = []
    traces = root / "traces"
    bug = f"import faulthandler, signal; faulthandler.register(signal.SIGUSR2, open({str(traces)!r}, 'w'))\n"
    with place(root, lambda body: make_reply(replies)) as here:
        here.settings(SETTINGS.replace("20.0", "3.0"))
        here.environment |= {"EDITOR": "touch", "PAGER": "cat", "BROWSER": "true", "GIT_ALLOW_PROTOCOL": "file"}
        (here.folder / "notes.md").write_text("milk\n")
        subprocess.run(["git", "init", "-q"], cwd=here.folder, env=here.environment, check=True)
        env = {"TERM": "dumb"} if chance.random() < 0.2 else {}
        with server_of(here, chance.random() < 0.2) as connect:
            level = () if connect else ("--allow", chance.choice(("ask", "edit", "auto", "all")))
            more: tuple[str, ...] = (*connect, *level)
            for part in range(3):
                columns, rows = chance.choice(SIZES) if part else (80, 24)
                with Repl(here, *more, env=env, bug=bug, columns=columns, rows=rows) as terminal:
                    if part == 0 or chance.random() < 0.7:
                        terminal.ready()
                    type_keys(terminal, chance, (count or chance.randint(200, 350)) // (1 + 3 * part))
                    screen = terminal.lines()
                    faults, killed = end_run(terminal, chance, traces)
                    if b"Traceback" in terminal.raw:
                        faults.append(f"a traceback on the screen\n{terminal.raw[-6000:].decode(errors='replace')}")
                    waits = killed and not connect  # a client's queue is lost with it
                    marks = read_marks(terminal.scrollback(), KEPT) | (read_marks(screen, QUEUED) if waits else set())
                if not (connect or until(lambda: is_quiet(here.folder), PATIENCE)):
                    faults.append("a process is left in the project")
                faults += check(here, marks if not env else set())
                if faults or not killed or connect:
                    break
                more = ("-c", *level)
        return faults


if __name__ == "__main__":
    sys.exit(run_seeds(play, "Type random keys at the REPL, end it, and check what it left."))
