"""`EditorFiles`: the texts of files in the editor of one session, by `fs/read_text_file` and `fs/write_text_file`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from acp import Client, RequestError

from nexus_cli.config.paths import is_below
from nexus_cli.core.elide import one_line
from nexus_cli.core.event import Notice
from nexus_cli.session.session import Session

SECONDS = 10.0
"""Time that the editor has for an answer; it is asked no more when it has not answered."""
LONGEST = 200
"""Most characters of its error."""
SILENT, NO_TEXT = "the editor is not responding", "the response has no text"


class EditorFiles:
    """Implements `core.services.EditorTexts`. It is called by threads, the editor by the event loop."""

    def __init__(self, client: Client, loop: asyncio.AbstractEventLoop, session: Session) -> None:
        self.unsaved: dict[Path, str] = {}
        self.compared: dict[Path, tuple[str, str | None]] = {}
        self._client = client
        self._loop = loop
        self._session = session
        self._reported_kinds: set[str] = set()
        self._is_silent = False

    def read(self, path: Path) -> str | None:
        """See `EditorTexts`. Asks only for files in the session's folders, and for none while a background job of the
        session or of a worker runs: a job could replace a folder by a link, which the editor would follow."""
        dispatcher = self._session.dispatcher
        folders = map(os.path.realpath, (dispatcher.project_root, *dispatcher.call_changes.added()))
        if self._is_silent or not is_below(path, *folders):
            return None
        if self._session.has_jobs():
            self._notify_once("", "unsaved changes in the editor are not read while background commands run")
            return None
        answer, why = self._ask(self._client.read_text_file(session_id=self._session.id, path=str(path)))
        if why:
            line = f"the editor did not return the text of {path.name}: {why}; its unsaved changes are not known"
            self._notify_once("read", line)
        return None if why else str(answer.content)

    def write(self, path: Path, text: str) -> str:
        """See `EditorTexts`."""
        if self._is_silent:
            return SILENT
        _, why = self._ask(self._client.write_text_file(session_id=self._session.id, path=str(path), content=text))
        if why:
            self._notify_once("write", f"the editor did not confirm that it saved {path.name}: {why}")
        return why

    def _ask(self, request: Coroutine[Any, Any, Any]) -> tuple[Any, str]:
        """Return the answer of the editor, and why there is none."""
        future = asyncio.run_coroutine_threadsafe(request, self._loop)
        try:
            return future.result(SECONDS), ""
        except (TimeoutError, ConnectionError):
            future.cancel()
            self._is_silent = True
            return None, SILENT
        except RequestError as error:
            details = error.data.get("details") if isinstance(error.data, dict) else ""
            return None, one_line(f"{error} {details or ''}").strip()[:LONGEST]
        except (ValueError, AttributeError, TypeError):  # the SDK cannot read the answer
            return None, NO_TEXT

    def _notify_once(self, kind: str, line: str) -> None:
        """Notify the person of one line of each kind."""
        if kind not in self._reported_kinds:
            self._reported_kinds.add(kind)
            self._loop.call_soon_threadsafe(self._session.engine.control.emit_from_background, Notice(line))
