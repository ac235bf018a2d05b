"""Functions that are entered: a program for a child process, `count_calls.py NOTES [ask ARGUMENTS]`.

With arguments it is `nexus ask ARGUMENTS` up to its first call of litellm. Without, a session runs two turns in the
working folder with a model that answers at once; the second is noted, from the words to the request and from the call
of a tool to the next request. Writes a JSON object to the file NOTES: `functions`, a list for each part, as `file:line
name`, those of ours that were entered in any thread; `statements`, how many the ledger ran in each part; and `modules`,
those of ours that were loaded at the end.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING

import nexus_cli

if TYPE_CHECKING:
    from nexus_cli.core.request import Delta, Request

ROOT = str(Path(nexus_cli.__file__).parent) + "/"
FUNCTION = 2
"""Flag `CO_NEWLOCALS`: a function, not the body of a module or a class."""


class Notes:
    """Notes each function once in each part, from `begin` to `end`; writes them to `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entered: set[CodeType] = set()
        self._parts: list[list[str]] = []
        self._statements: list[int] = []

    def begin(self) -> None:
        """Begin a part."""
        self._entered.clear()
        self._statements.append(0)
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def end(self) -> None:
        """End the part, and write all of them."""
        sys.setprofile(None)
        threading.setprofile(None)
        own = (one for one in self._entered.copy() if one.co_filename.startswith(ROOT) and one.co_flags & FUNCTION)
        found = (f"{one.co_filename.removeprefix(ROOT)}:{one.co_firstlineno} {one.co_qualname}" for one in own)
        self._parts.append(sorted(found))
        modules = sorted(name for name in sys.modules if name.split(".")[0] == "nexus_cli")
        notes = {"functions": self._parts, "statements": self._statements, "modules": modules}
        self._path.write_text(json.dumps(notes))

    def _profile(self, frame: FrameType, event: str, function: object) -> None:
        if event == "c_call" and isinstance(getattr(function, "__self__", None), sqlite3.Connection):
            self._statements[-1] += getattr(function, "__name__", "") == "execute"
        if event == "call" and frame.f_code not in self._entered:
            self._entered.add(frame.f_code)
            if frame.f_code.co_name == "acompletion" and not self._parts:
                self.end()


async def two_turns(notes: Notes) -> None:
    """Run two turns of a new session; the model reads a file in each."""
    from nexus_cli.config.load_settings import load_settings
    from nexus_cli.config.paths import places
    from nexus_cli.core.request import CallDelta, FinishDelta, TextDelta, UsageDelta
    from nexus_cli.core.usage import Usage
    from nexus_cli.provider.litellm_backend import LitellmBackend
    from nexus_cli.session.factory import open_session
    from nexus_cli.session.options import Options

    requests = 0

    async def answer(_: LitellmBackend, request: Request) -> AsyncIterator[Delta]:
        nonlocal requests
        requests += 1
        if requests > 2:
            notes.end()
        if requests % 2:
            yield CallDelta(0, f"call_{requests}", "read_file", '{"path": "f1.txt"}')
            yield FinishDelta("tool_calls")
            yield UsageDelta(Usage(1000, 10))
            if requests > 2:
                notes.begin()
        else:
            yield TextDelta("done")
            yield FinishDelta("stop")
            yield UsageDelta(Usage(1000, 10))

    setattr(LitellmBackend, "stream", answer)  # noqa: B010  (a method)
    setattr(LitellmBackend, "prepare", lambda backend: None)  # noqa: B010
    settings = load_settings(places()).settings
    session = open_session(Options(cwd=Path.cwd(), model="openai/scripted", allow="all"), settings, approver=None)
    for turn in range(2):
        if turn:
            notes.begin()
        async for _ in session.run("go on"):
            pass
    await session.aclose()


if __name__ == "__main__":
    noted = Notes(Path(sys.argv.pop(1)))
    if sys.argv[1:]:
        noted.begin()
        from nexus_cli.__main__ import main

        main()
    asyncio.run(two_turns(noted))
