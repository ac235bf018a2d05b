"""The environment variables of this process, some of which change while a library is called.

`os.environ` belongs to every thread. Whoever reads all of it, or starts a program with it, calls `copy_environ`: an
iteration over `os.environ` fails if another thread removes a variable.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager

from nexus_cli.core.shared_types import Environ

_lock = threading.Lock()
_depth = 0
_before: dict[str, str | None] = {}
"""The values of the variables that are changed now; None for a variable that was not set."""


@contextmanager
def changed_environ(values: Environ, *saved_names: str) -> Iterator[None]:
    """Set variables within the block, and restore them and `saved_names` after it. Nested and overlapping blocks are
    counted; the values of the first one hold."""
    global _depth
    with _lock:
        if _depth == 0:
            _before.update({name: os.environ.get(name) for name in (*values, *saved_names)})
            os.environ.update(values)
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                _restore(os.environ)
                _before.clear()


def copy_environ(environ: Environ = os.environ) -> dict[str, str]:
    """Return a copy of `environ`; of `os.environ` one without the changes of `changed_environ`."""
    if environ is not os.environ:
        return dict(environ)
    with _lock:
        variables = dict(environ)
        _restore(variables)
    return variables


def _restore(variables: MutableMapping[str, str]) -> None:
    for name, value in _before.items():
        if value is None:
            variables.pop(name, None)
        else:
            variables[name] = value
