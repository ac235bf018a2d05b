"""Types that signatures of several rooms share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
Environ = Mapping[str, str]
"""The variables of a process by name, as `os.environ` has them."""
Paths = tuple[Path, ...]
TakeText = Callable[[str], None]
"""Takes a text: shows it, sends it on or keeps it."""
