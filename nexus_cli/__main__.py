"""The entry point: takes the process in hand, answers `--version` and `--help` by itself, gives a one-shot to the warm
process if there is one, and hands everything else to the app.

Nothing is imported from the working folder, and a signal ends the program cleanly while it still starts.
"""

from __future__ import annotations

import os
import sys
import time

from nexus_cli import __version__
from nexus_cli.cli import process, signal_result
from nexus_cli.config import program_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Run the command line and end the process; never returns."""
    process.take_in_hand(sys.argv[1:])
    if sys.argv[1:] == ["--version"]:
        process.exit_process(0, f"nexus {__version__}\n")
    if sys.argv[1:] in (["--help"], ["-h"]):
        from nexus_cli.cli.help_page import read_help_page  # noqa: PLC0415  (nothing else needs it)

        if page := read_help_page():
            process.exit_process(0, page)
    if signal_result.is_one_shot(sys.argv[1:]):
        from nexus_cli.warm import auto  # noqa: PLC0415  (only a one-shot needs it)

        if auto.is_wanted():
            _run_warm()
    _run_app()


def serve_warm() -> None:
    """Be the warm process of the folder and the minutes in the arguments."""
    from nexus_cli.cli.preload import import_run  # noqa: PLC0415  (no other process wants it)
    from nexus_cli.core.private_process import make_process_private  # noqa: PLC0415  (not for `--version`)
    from nexus_cli.warm import server  # noqa: PLC0415  (as above)

    make_process_private()
    server.serve(sys.argv[1], float(sys.argv[2]), import_run, lambda: process.take_in_hand(sys.argv[1:]), _run_app)


def _run_warm() -> NoReturn:
    """Run in the warm process; where that is not possible, run here and start one for the next run."""
    from nexus_cli.warm import place  # noqa: PLC0415  (only a one-shot needs it)

    began, why = time.time(), ""
    if os.path.exists(place.socket_path(place.own_folders()[1])):
        from nexus_cli.warm import caller  # noqa: PLC0415  (most calls find no warm process)

        why = caller.try_warm(sys.argv[1:], program_words.plain_words(sys.argv[1:]))
    process.exit_process(_app_status(), before_exit=lambda: _leave_warm_process(why, began))


def _leave_warm_process(why: str, began: float) -> None:
    if "litellm" not in sys.modules:
        return
    from nexus_cli.warm import caller  # noqa: PLC0415  (after the run: it adds nothing to the way to the answer)

    caller.leave_warm_process(why, program_words.plain_words(sys.argv[1:]), began)


def _run_app() -> NoReturn:
    process.exit_process(_app_status())


def _app_status() -> int:
    from nexus_cli.core.private_process import make_process_private  # noqa: PLC0415  (not for `--version`)

    make_process_private()
    from nexus_cli.cli import app  # noqa: PLC0415  (`--version` and a warm start do without it)

    return app.run(sys.argv[1:])


if __name__ == "__main__":
    main()
