"""The entry point: takes the process in hand, answers `--version` by itself, and hands everything else to the app.

Nothing is imported from the working folder, and a signal ends the program cleanly while it still starts.
"""

from __future__ import annotations

import sys

from nexus_cli import __version__
from nexus_cli.cli import process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Run the command line and end the process; never returns."""
    process.exit_on_signals(sys.argv[1:])
    process.disable_gc()
    process.block_imports_from_cwd()
    process.reopen_descriptors()
    if sys.argv[1:] == ["--version"]:
        process.exit_process(0, f"nexus {__version__}\n")
    from nexus_cli.cli import app  # noqa: PLC0415  (`--version` does without it)

    process.exit_process(app.run(sys.argv[1:]))


if __name__ == "__main__":
    main()
