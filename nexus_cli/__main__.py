"""The entry point: takes the process in hand, answers `--version`, `--help` and shells that complete a line by itself,
and hands everything else to the app.

Nothing is imported from the working folder, and a signal ends the program cleanly while it still starts.
"""

from __future__ import annotations

import os
import sys

from nexus_cli.cli import process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Run the command line and end the process; never returns."""
    process.set_up_process()
    if sys.argv[1:] == ["--version"]:
        from nexus_cli.cli.version import version_line  # noqa: PLC0415  (nothing else needs it)

        process.exit_process(0, version_line())
    if sys.argv[1:] in (["--help"], ["-h"]):
        from nexus_cli.cli.start_table import HELP, read_block  # noqa: PLC0415  (nothing else needs it)

        if page := read_block(HELP):
            process.exit_process(0, f"{page}\n")
    action, _, shell = os.environ.get("_NEXUS_COMPLETE", "").partition("_")
    if action == "complete":
        from nexus_cli.cli.completion import complete_line  # noqa: PLC0415  (nothing else needs it)

        try:
            answer = complete_line(shell)
        except Exception:  # the person is typing: a traceback would be written into the line
            answer = 1, ""
        process.exit_process(*answer)
    from nexus_cli.core.lazy_methods import compile_methods_lazily  # noqa: PLC0415  (not for `--version`)
    from nexus_cli.core.private_process import make_process_private  # noqa: PLC0415  (as above)

    compile_methods_lazily()
    make_process_private()
    from nexus_cli.cli import app  # noqa: PLC0415  (`--version` does without it)

    process.exit_process(app.run(sys.argv[1:]))


if __name__ == "__main__":
    main()
