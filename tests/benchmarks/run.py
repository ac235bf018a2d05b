"""Starts the benchmarks by hand: `python tests/benchmarks/run.py [NAME...] [--times N]`. See `benchmarks.table`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.table import main  # noqa: E402  (found from tests/, as pytest finds it)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
