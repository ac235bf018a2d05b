"""`AttachedTexts`: texts that wait for the next message of a session (output of `!` commands, recalled drops), and
queued messages.

They are stored in the ledger whenever they change, so that a kill loses none, and found again when the session is
resumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from nexus_cli.conversation.compaction.work_log import CommandRun
from nexus_cli.core.elide import clip_text, one_line
from nexus_cli.core.entry import PERSON, Entry
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonObject, to_json_value
from nexus_cli.core.memo_kinds import CLIPPED_MESSAGE, COMMAND, RECALLED_DROP, SHELL_LINE, WAITING_TEXTS
from nexus_cli.core.server_results import MAX_ATTACHED
from nexus_cli.session.base_session import BaseSession

LONGEST = 400
"""Most characters of a command that the timeline shows."""


@dataclass(frozen=True, slots=True)
class AttachedTexts:
    """The waiting texts of one session, whose front end keeps them."""

    session: BaseSession

    def note_command(self, attached: str, command: str, output: str) -> None:
        """Note the result of a `!` command for the timeline; the work record has it once a message includes
        `attached`."""
        if run := CommandRun.read(command, output):
            line = f"!{one_line(command)}: {run.describe_end('no exit status')}"
            line_memo, memos = {"shown": clip_text(line, LONGEST)}, {COMMAND: run.noted}
            if self.session.conversation.last:
                with suppress(NexusError):  # a ledger that fails says so by the next commit that matters
                    self.session.conversation.memo(SHELL_LINE, line_memo)
            else:  # a session without messages is not kept
                memos[SHELL_LINE] = line_memo
            self.session.engine.control.attachment_memos[attached] = memos

    def note_recall(self, attached: str, drop_id: str) -> None:
        """Note that `attached` is a part of a drop, which the timeline names once a message takes it."""
        self.session.engine.control.attachment_memos[attached] = {RECALLED_DROP: {"drop": drop_id}}

    @property
    def is_kept(self) -> bool:
        """True if texts that are stored are there for another process; a session without messages is not kept."""
        return self.session.saved and bool(self.session.conversation.last)

    def store(self, texts: Sequence[JsonObject], messages: Sequence[Sequence[Any]]) -> bool:
        """Store texts that wait for the next message, each with `what` it is, and the fields of queued messages, the
        last of which has the texts that they take along; return False if the session cannot be resumed."""
        conversation = self.session.conversation
        if not self.is_kept:
            return False
        waiting = {*(text["text"] for text in texts), *(text for message in messages for text, _ in message[-1])}
        memos = {text: notes for text, notes in self.session.engine.control.attachment_memos.items() if text in waiting}
        now = to_json_value({"session": self.session.id, "texts": texts, "queued": messages, "memos": memos})
        if now != self._read_stored()[1]:
            conversation.memo(WAITING_TEXTS, now)
        return True

    def add(self, text: str, label: str) -> None:
        """Store one more text that waits, for a front end that stores none: a client of a server may leave. The newest
        `MAX_ATTACHED` wait, since a client may never send any."""
        stored = self.load()
        self.store([*stored["texts"], {"text": text, "what": label}][-MAX_ATTACHED:], stored["queued"])

    def remove(self, text: str) -> None:
        """Store that a text waits no longer."""
        stored = self.load()
        self.store([waiting for waiting in stored["texts"] if waiting["text"] != text], stored["queued"])

    def load(self) -> JsonObject:
        """Return the stored `texts` and the fields of the `queued` messages, without what was sent after they were
        stored: a kill can come between the two."""
        conversation, (entry_id, stored) = self.session.conversation, self._read_stored()
        texts, queued = stored["texts"], list(stored["queued"])
        later = conversation.read(entry_id + 1, conversation.last) if texts or queued else ()
        memos = conversation.memos(CLIPPED_MESSAGE) if later else ()
        clipped = {memo.entry: memo.value.get("parts", ()) for memo in memos}  # a result of a tool has no parts
        for entry in (entry for entry in later if entry.actor == PERSON):
            content = self._read_whole(entry, clipped.get(entry.id, ()))
            texts = [text for text in texts if text["text"] not in content]
            if sent_message := next((message for message in queued if content.startswith(message[0])), None):
                queued.remove(sent_message)
        self.session.engine.control.attachment_memos |= stored["memos"]
        return {**stored, "texts": texts, "queued": queued}

    def _read_whole(self, entry: Entry, parts: Sequence[Sequence[Any]]) -> str:
        """Return the text of a message as it was sent, with the originals of its clipped `parts`."""
        text = entry.message.content
        for start, end, drop in reversed(parts):
            text = text[:start] + (self.session.record.original(str(drop)) or text[start:end]) + text[end:]
        return text

    def _read_stored(self) -> tuple[int, JsonObject]:
        """Return the newest entry when texts and messages were last stored, and what was stored."""
        memos = self.session.conversation.memos(WAITING_TEXTS)
        own_memos = [memo for memo in memos if memo.value["session"] == self.session.id]  # a fork has its source's too
        entry_id, value = (own_memos[-1].entry, own_memos[-1].value) if own_memos else (0, {})
        return entry_id, {"session": self.session.id, "texts": [], "queued": [], "memos": {}, **value}
