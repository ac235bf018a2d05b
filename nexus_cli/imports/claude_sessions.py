"""Read the sessions of Claude Code: `projects/*/*.jsonl`, one file each, a tree of records linked by `parentUuid`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from nexus_cli.core.attachment import Part
from nexus_cli.core.entry import Kind
from nexus_cli.core.message import Message, Role, ToolCall
from nexus_cli.core.usage import Usage
from nexus_cli.core.wire import as_table
from nexus_cli.imports.foreign_session import (
    ForeignSession,
    clean_text,
    count,
    image_part,
    make_call,
    read_name,
    read_records,
)

CHAT_TYPES = ("user", "assistant")
BOUNDARY = "compact_boundary"
OWN_TEXTS = ("<local-command-", "[Request interrupted by user")
"""Beginnings of user messages that Claude Code writes itself."""
OWN_COMMANDS = ("/clear", "/compact", "/config", "/context", "/cost", "/exit", "/model", "/resume", "/status", "/usage")
"""Commands that Claude Code carries out itself: the model is told nothing of them."""
_COMMAND_TAG = re.compile(r"<command-(name|message|args)>(.*?)</command-\1>", re.DOTALL)
_LINKS = ("type", "subtype", "uuid", "parentUuid", "logicalParentUuid")
Record = dict[str, Any]


def read_claude_session(path: Path) -> ForeignSession:
    """Return the session in a file: the most recently continued branch. Raises `OSError`."""
    session = ForeignSession("claude", path.stem, path)
    records = _keep_records(session)
    chosen = _choose_branch(records, session)
    talk = _Talk(session)
    for record in (record for record in records if record["type"] in CHAT_TYPES):
        if id(record) in chosen:
            talk.add(record)
        else:
            session.left_out["messages of other branches"] += 1
    session.close_calls()
    return session


def _keep_records(session: ForeignSession) -> list[Record]:
    """Return the records of the conversation, and of the others what links them."""
    records: list[Record] = []
    uuids: set[str] = set()
    for record in read_records(session.path, session.bad_lines):
        record = _attach(record)
        kind = record.get("type")
        session.folder = session.folder or read_name(record, "cwd")
        if record.get("isSidechain") is True:
            session.left_out["records of subagents"] += 1
            continue
        uuid = read_name(record, "uuid")
        if uuid:
            if uuid in uuids:
                session.left_out["repeated records"] += 1
                continue
            uuids.add(uuid)
        if kind in CHAT_TYPES and isinstance(record.get("message"), dict):
            records.append(record)
            continue
        if title := read_name(record, "customTitle"):
            session.name = title
            continue
        if record.get("subtype") == BOUNDARY:
            session.left_out["compaction boundaries"] += 1
        else:
            session.omit("records", kind or "unknown")
        if uuid:
            records.append({"type": "", **{key: record[key] for key in _LINKS[1:] if key in record}})
    return records


def _attach(record: Record) -> Record:
    """Return the record of a file that the person named by `@` as a message that has the file; any other unchanged."""
    attached = as_table(record.get("attachment"))
    content = as_table(attached.get("content")) if attached.get("type") == "file" else {}
    file = content.get("file")
    if not isinstance(file, dict):
        return record
    words = "\n".join(filter(None, (f"[Attached {read_name(attached, 'filename')}]", read_name(file, "content"))))
    blocks: list[Record] = [{"type": "text", "text": words}]
    if "base64" in file:
        source = {"media_type": file.get("type"), "data": file["base64"]}
        blocks.append({"type": "image", "source": source})
    return {**record, "type": "user", "isMeta": True, "message": {"content": blocks}}


def _choose_branch(records: list[Record], session: ForeignSession) -> set[int]:
    """Return the identities of the records on the branch from the last message to the first.

    Results and parts of a message beside the branch, as parallel calls have, are included.
    """
    places = {read_name(record, "uuid"): place for place, record in enumerate(records)}
    position = next((place for place in reversed(range(len(records))) if records[place]["type"] in CHAT_TYPES), -1)
    branch: dict[int, Record] = {}
    while position >= 0 and position not in branch:
        record = branch[position] = records[position]
        parent = read_name(record, "parentUuid") or read_name(record, "logicalParentUuid")
        is_root = "uuid" in record and not parent and not _is_compaction(record)
        if parent and parent in places:
            position = places[parent]
        elif is_root:
            break
        else:
            session.left_out["links to missing records"] += bool(parent)
            position -= 1
    spoken = [record for record in branch.values() if record["type"] in CHAT_TYPES]
    messages = {read_name(record["message"], "id") for record in spoken if record["type"] == "assistant"} - {""}
    parts = [row for row in records if row["type"] == "assistant" and read_name(row["message"], "id") in messages]
    blocks = (block for part in (*spoken, *parts) for block in _blocks(part))
    calls = {read_name(block, "id") for block in blocks if block.get("type") == "tool_use"}
    results = [row for row in records if row["type"] == "user" and _answers(row, calls)]
    return {id(part) for part in (*spoken, *parts, *results)}


def _is_compaction(record: Record) -> bool:
    return record.get("subtype") == BOUNDARY or record.get("isCompactSummary") is True


def _answers(record: Record, calls: set[str]) -> bool:
    blocks = _blocks(record)
    return bool(blocks) and all(
        block.get("type") == "tool_result" and read_name(block, "tool_use_id") in calls for block in blocks
    )


def _blocks(record: Record) -> list[Record]:
    """Return the blocks of a message; a plain text is one."""
    content = record["message"].get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _read_typed_command(text: str) -> str:
    """Return `/NAME ARGUMENTS` for the tags that Claude Code writes in place of a slash command, else `text`."""
    tags = dict(_COMMAND_TAG.findall(text)) if text.lstrip().startswith("<command-") else {}
    if "name" not in tags or _COMMAND_TAG.sub("", text).strip():
        return text
    return f"{tags['name']} {tags.get('args', '')}".strip()


class _Talk:
    """The conversation on its way into a session."""

    def __init__(self, session: ForeignSession) -> None:
        self.session = session
        self._messages: dict[str, int] = {}
        """By id of an assistant's message: its place in the entries."""
        self._names: dict[str, str] = {}
        self._answered: set[str] = set()
        self._counted: dict[str, Usage] = {}

    def add(self, record: Record) -> None:
        """Add one record of the branch."""
        self.session.note_time(record.get("timestamp"))
        if record["type"] == "assistant":
            self._add_reply(record)
        else:
            self._add_user(record)

    def _add_user(self, record: Record) -> None:
        session = self.session
        if record.get("isCompactSummary") is True and session.entries:
            session.left_out["compaction summaries (the original messages are imported)"] += 1
            return
        texts: list[str] = []
        images: list[Part] = []
        for block in _blocks(record):
            match block.get("type"):
                case "text":
                    texts.append(str(block.get("text", "")))
                case "tool_result":
                    self._add_result(block)
                case "image" if (image := self._image(block)) is not None:
                    images.append(image)
                case "image":
                    session.left_out["images without data"] += 1
                case kind:
                    session.omit("blocks", kind)
        text = _read_typed_command("\n\n".join(texts))
        if text.partition(" ")[0] in OWN_COMMANDS and not images:
            session.left_out["built-in commands of Claude Code"] += 1
            return
        is_own = record.get("isMeta") is True or record.get("isCompactSummary") is True or text.startswith(OWN_TEXTS)
        session.add_text(text, images, typed=not is_own)

    def _add_result(self, block: Record) -> None:
        call, content = read_name(block, "tool_use_id"), block.get("content")
        if call in self._answered:
            self.session.left_out["repeated results"] += 1
            return
        self._answered.add(call)
        texts = [content] if isinstance(content, str) else []
        images: list[Part] = []
        for part in content if isinstance(content, list) else ():
            block = as_table(part)
            if block.get("type") == "text":
                texts.append(str(block.get("text", "")))
            elif (image := self._image(block)) is not None:
                images.append(image)
            else:
                kind = part.get("type") if isinstance(part, dict) else type(part).__name__
                self.session.left_out[f"{str(kind)[:40]} blocks in tool results"] += 1
        self.session.add_result(call, "\n\n".join(texts), self._names, images)

    def _image(self, block: Record) -> Part | None:
        source = as_table(block.get("source"))
        return image_part(source.get("media_type"), source.get("data"))

    def _add_reply(self, record: Record) -> None:
        session, message = self.session, record["message"]
        model = read_name(message, "model")
        if record.get("isApiErrorMessage") is True or model == "<synthetic>":
            session.left_out["API error messages"] += 1
            return
        session.model = model or session.model
        texts, calls = list[str](), list[ToolCall]()
        for block in _blocks(record):
            match block.get("type"):
                case "text":
                    texts.append(str(block.get("text", "")))
                case "tool_use":
                    calls.append(make_call(read_name(block, "id"), read_name(block, "name"), block.get("input")))
                case "thinking" | "redacted_thinking":
                    session.left_out["thinking (usable only by the original provider)"] += 1
                case kind:
                    session.omit("blocks", kind)
        self._names |= {call.id: call.name for call in calls}
        key = read_name(message, "id") or read_name(record, "uuid") or str(len(session.entries))
        self._count_usage(key, model, message.get("usage"))
        text = clean_text("\n\n".join(filter(None, texts)))
        if (place := self._messages.get(key)) is not None:
            session.extend(place, text, calls)
        elif text or calls:
            reply = Message(Role.ASSISTANT, text, tuple(calls))
            self._messages[key] = session.add(Kind.ASSISTANT, reply, "agent")

    def _count_usage(self, key: str, model: str, raw: object) -> None:
        """Count the usage of a message once: each of its records repeats it, the last one has the final count."""
        if not isinstance(raw, dict):
            return
        read, written = count(raw.get("cache_read_input_tokens")), count(raw.get("cache_creation_input_tokens"))
        usage = Usage(
            count(raw.get("input_tokens")) + read + written, count(raw.get("output_tokens")), read, written, 0, None
        )
        now = self.session.usage.get(model, Usage())
        self.session.usage[model] = now + usage - self._counted.get(key, Usage())
        self._counted[key] = usage
