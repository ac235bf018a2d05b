"""Say how a package that nexus can use is installed for this copy of nexus."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from importlib.util import find_spec

EXTRAS: Mapping[str, str] = {
    "keyring": "keyring>=25",
    "team": "psycopg[binary]>=3.2",
    "mcp": "mcp>=2.3,<3",
    "acp": "agent-client-protocol>=0.12.1,<0.13",
}
"""By name of an extra, the package that it installs, as in `pyproject.toml`."""


def install_hint(extra: str) -> str:
    """Return the command that installs the package of `extra` for the interpreter of this process.

    It never names nexus itself: this copy need not come from a package index.
    """
    python = shlex.quote(sys.executable)
    pip = f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
    return f"{pip} '{EXTRAS[extra]}'"
