"""`EditorFiles`: the texts of files in the editor of one session, by `fs/read_text_file` and `fs/write_text_file`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from acp import Client, RequestError

from nexus_cli.core.elide import one_line

SECONDS = 5.0
"""Time that the editor has for an answer; it is asked no more when it has not answered."""
LONGEST = 200
"""Most characters of its error."""
SILENT, NO_TEXT, READ_ONLY = "it does not answer", "it answered without a text", "it offers no writing"


class EditorFiles:
    """Implements `core.services.EditorTexts`. It is called by threads, the editor by the event loop."""

    def __init__(
        self,
        client: Client,
        folders: Sequence[Path],
        tell: Callable[[str], None],
        has_jobs: Callable[[], object],
        *,
        can_write: bool,
    ) -> None:
        """`folders` are those of the session, whose files alone are asked for. Has to be made in the event loop.

        While `has_jobs` returns something, commands run beside the turn, and the editor is not asked: it would follow a
        link that such a command puts in the place of a folder.
        """
        self.session_id = ""
        """The session of the requests; set once it is open."""
        self.unsaved: dict[Path, str] = {}
        self.looks: dict[Path, tuple[str, str | None]] = {}
        self._client = client
        self._folders = folders
        self._tell = tell
        self._has_jobs = has_jobs
        self.can_write = can_write
        self._loop = asyncio.get_running_loop()
        self._told: set[str] = set()
        self._is_silent = False

    def read(self, path: Path) -> str | None:
        """See `EditorTexts`."""
        if self._is_silent or not any(path.is_relative_to(folder) for folder in self._folders):
            return None
        if self._has_jobs():
            self._tell_once("", "unsaved text of the editor is not read while commands run in the background")
            return None
        answer, why = self._ask(self._client.read_text_file(session_id=self.session_id, path=str(path)))
        text = getattr(answer, "content", None)
        if not why and isinstance(text, str):
            return text
        line = f"the editor does not give its text of {path.name}: {why or NO_TEXT}; files are read from the disk"
        self._tell_once("read", line)
        return None

    def write(self, path: Path, text: str) -> str:
        """See `EditorTexts`."""
        if not self.can_write or self._is_silent:
            return SILENT if self._is_silent else READ_ONLY
        _, why = self._ask(self._client.write_text_file(session_id=self.session_id, path=str(path), content=text))
        if why:
            self._tell_once("write", f"the editor does not save {path.name}: {why}")
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

    def _tell_once(self, what: str, line: str) -> None:
        """Tell the person one line of each kind."""
        if what not in self._told:
            self._told.add(what)
            self._loop.call_soon_threadsafe(self._tell, line)
