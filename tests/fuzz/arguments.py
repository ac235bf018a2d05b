"""Run commands of the shell with random options and arguments, and check that each ends in a status and a line of ours.

By hand: `python tests/fuzz/arguments.py --seed 7 --times 20`. What is drawn is read from the commands themselves, so a
new one is called too.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

from fuzz.seeds import run_seeds  # noqa: E402  (found from tests/, as pytest finds it)
from program.stage import stage  # noqa: E402

from nexus_cli.cli.app import build  # noqa: E402
from nexus_cli.core.errors import EXIT_STATUS  # noqa: E402

STAYS = {"serve", "acp", "tour"}
"""Commands that go on until they are stopped, or take long."""
ASKS = {"--help", "-h", "--version"}
WORDS = (
    *("", "~nosuch/x", "~", "team\udcff", "-1", "0", "x" * 5000, "/dev/null", "/", "\U0001f4a5", "../..", "a\nb"),
    *("a.txt", "9" * 20, "1e400", "nan", "http://[", "@x", "{}", "[", "*", "--", "\x1b[31m", ":memory:"),
    *("01M8JCJGTTR8MX02F61XRDRA2T", "file:///etc/passwd"),
)
STATUSES = {0, *EXIT_STATUS.values()}


def find_commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """Yield the words and the parameters of `command` and of those below it."""
    yield path, command.params
    if not hasattr(command, "list_commands"):
        return
    context = command.make_context("nexus", [], resilient_parsing=True)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        if below is not None and name not in STAYS:
            yield from find_commands(below, (*path, name))


def draw_line(chance: random.Random, path: tuple[str, ...], parameters: list[Any]) -> list[str]:
    """Return a command line with some of the options and arguments of a command."""
    line = list(path)
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            count = 1 if parameter.nargs == 1 else chance.choice((0, 1, 2))
            line += [chance.choice(WORDS) for _ in range(count if parameter.required or chance.random() < 0.6 else 0)]
        elif chance.random() < 0.25 and not ASKS.intersection(parameter.opts):
            line += [parameter.opts[-1], *([] if parameter.is_flag else [chance.choice(WORDS)])]
    return line


def play(folder: Path, seed: int, count: int = 150) -> list[str]:
    """Run `count` random command lines in one project; return those that ended in no line of ours."""
    chance, faults = random.Random(seed), []
    commands = [found for found in find_commands(build(completion=False)) if found[0]]
    with stage(folder, ["done"] * count) as place:
        place.environment |= {"HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9"}
        (place.folder / "a.txt").write_text("a\n")
        for _ in range(count):
            line = draw_line(chance, *chance.choice(commands))
            done = place.run(*line)
            said = (done.stdout + done.stderr).decode(errors="replace")
            if done.status not in STATUSES or "a bug in nexus" in said or "Traceback" in said:
                faults.append(f"nexus {line!r:.300}: status {done.status}, {said[-300:]}")
    return faults


if __name__ == "__main__":
    sys.exit(run_seeds(play, __doc__ or ""))
