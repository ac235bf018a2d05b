"""Sessions of Claude Code and codex as entries: several versions, broken files, and back out again."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from images import png
from imports.claude_home import Session

from nexus_cli.core.attachment import Part
from nexus_cli.core.entry import Entry, Epoch, Kind, Manifest
from nexus_cli.core.message import Message, Role, ToolCall
from nexus_cli.core.usage import Usage
from nexus_cli.core.wire import WireRules
from nexus_cli.hooks.claude_lines import claude_lines
from nexus_cli.imports import foreign_session
from nexus_cli.imports.claude_sessions import read_claude_session
from nexus_cli.imports.codex_sessions import read_codex_session
from nexus_cli.imports.store_sessions import import_sessions
from nexus_cli.ledger import Ledger
from nexus_cli.reports.export import session_pieces
from nexus_cli.reports.timeline import session_timeline

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 8).decode()


def roles(entries: list[Entry]) -> str:
    return "".join(str(one.message.role)[0] for one in entries)


def texts(entries: list[Entry]) -> list[str]:
    return [one.message.content for one in entries]


def test_parts_of_one_reply_and_parallel_results_beside_the_way_are_one_group(tmp_path: Path) -> None:
    talk = Session("s", "/srv/a").user("Look twice")
    talk.reply("", ("t1", "Bash", {"command": "a"}), id="m1").reply("", ("t2", "Bash", {"command": "b"}), id="m1")
    talk.result("t1", "one").result("t2", "two")
    talk.records[3]["parentUuid"] = "s-1"  # the result of the first call hangs on its own part
    talk.records[4]["parentUuid"] = "s-2"
    found = read_claude_session(talk.reply("Both.").write(tmp_path))
    assert roles(found.entries) == "uatta" and texts(found.entries)[2:] == ["one", "two", "Both."]
    assert [call.id for call in found.entries[1].message.tool_calls] == ["t1", "t2"] and not +found.left_out
    assert found.usage["claude-sonnet-4-5-20250929"] == Usage(1100, 14, 1000, 80, 0, None), "a message is counted once"
    assert [one.id for one in found.entries] == [1, 2, 3, 4, 5] and found.entries[0].at == "2025-10-01T10:00:00.000Z"


def test_images_of_results_follow_the_results_of_their_step(tmp_path: Path) -> None:
    """A broken one, with which a provider refuses each request, is only named."""
    whole = png(40, 30)
    talk = Session("s", "/srv/a").user("Look").reply("", ("t1", "Read", {}), ("t2", "Read", {}))
    images = [
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/jpeg", "data": base64.b64encode(data).decode()},
        }
        for data in (whole, whole[:30])
    ]
    for call, content in (("t1", images), ("t2", [{"type": "text", "text": "words"}])):
        block = {"type": "tool_result", "tool_use_id": call, "content": content}
        talk.add("user", {"role": "user", "content": [block]})
    found = read_claude_session(talk.reply("Seen.").write(tmp_path))
    assert roles(found.entries) == "uattua" and not +found.left_out, (texts(found.entries), found.left_out)
    assert texts(found.entries)[2].splitlines() == [
        f"[image/png, {len(whole)} bytes: attached]",
        "[image/png, 30 bytes: not shown, it is not a complete PNG image]",
    ]
    assert texts(found.entries)[3:5] == ["words", "[Images in the result of Read]"]
    (part,) = found.entries[4].message.parts
    assert (part.media_type, part.origin) == ("image/png", "result of Read")
    assert [len(one.message.parts) for one in found.entries] == [0, 0, 0, 0, 1, 0]
    assert found.entries[4].kind is Kind.STEER and found.entries[4].actor == "nexus"

    talk = Session("named", "/srv/a").user("Look at @a.png and @b.txt")
    file = {"base64": base64.b64encode(whole).decode(), "type": "image/png"}
    talk.add("attachment", {}, attachment={"type": "file", "filename": "/a.png", "content": {"file": file}})
    text = {"type": "file", "filename": "/b.txt", "content": {"type": "text", "file": {"content": "words"}}}
    talk.add("attachment", {}, attachment=text)
    found = read_claude_session(talk.reply("Seen.").write(tmp_path))
    assert texts(found.entries)[1:3] == ["[Attached /a.png]", "[Attached /b.txt]\nwords"] and not +found.left_out
    assert [one.data for one in found.entries[1].message.parts] == [whole] and found.entries[1].kind is Kind.STEER

    path = tmp_path / "rollout-x.jsonl"
    asked = {"type": "function_call", "name": "view_image", "arguments": "{}", "call_id": "c"}
    shown = {"type": "input_image", "image_url": f"data:image/png;base64,{base64.b64encode(whole).decode()}"}
    output = {"type": "function_call_output", "call_id": "c", "output": [shown, {"type": "input_text", "text": "ok"}]}
    path.write_text(codex_lines(say("user", "Look"), asked, output))
    found = read_codex_session(path)
    assert roles(found.entries) == "uatu" and found.entries[3].message.parts and not +found.left_out, found.left_out


def test_a_rewound_branch_is_left_out_and_counted(tmp_path: Path) -> None:
    talk = Session("s", "/srv/a").user("One").reply("1").user("Wrong").reply("no")
    talk.user("Right").reply("yes")
    talk.records[4]["parentUuid"] = "s-1"
    found = read_claude_session(talk.write(tmp_path))
    assert texts(found.entries) == ["One", "1", "Right", "yes"]
    assert found.left_out == {"messages of other branches": 2}


def test_what_has_no_counterpart_is_counted_by_its_kind(tmp_path: Path) -> None:
    talk = Session("s", "/srv/a").user("Caveat: do not answer", isMeta=True).user("Hi")
    talk.add("assistant", {"role": "assistant", "model": "<synthetic>", "content": "API Error"}, isApiErrorMessage=True)
    talk.reply("Old.").user("Sub", isSidechain=True)
    blocks: list[Any] = [
        {"type": "thinking", "thinking": "hm", "signature": "x"},
        {"type": "text", "text": "New."},
        {"type": "z"},
    ]
    talk.add("assistant", {"role": "assistant", "id": "m", "content": blocks})
    talk.records[-1]["parentUuid"] = "s-3"
    talk.records.append(
        {"type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": None, "logicalParentUuid": "s-5"}
    )
    talk.user("This session is continued. Summary: ...", isCompactSummary=True)
    images: list[Any] = [
        {"type": "text", "text": "See"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
    ]
    talk.add("user", {"role": "user", "content": [*images, {"type": "image", "source": {"type": "url", "url": "x"}}]})
    talk.user("[Request interrupted by user]")
    path = talk.write(tmp_path)
    extra = [{"type": "summary", "summary": "x", "leafUuid": "y"}, {"type": "file-history-snapshot"}, {"what": 1}]
    path.write_text("".join(json.dumps(one) + "\n" for one in extra) + path.read_text())
    found = read_claude_session(path)
    assert texts(found.entries) == [
        "Caveat: do not answer",
        "Hi",
        "Old.",
        "New.",
        "See",
        "[Request interrupted by user]",
    ]
    assert [(one.kind, one.actor) for one in found.entries if one.actor == "nexus"] == [(Kind.STEER, "nexus")] * 2
    assert found.entries[4].message.parts == (Part("image/png", base64.b64decode(PNG)),)
    assert +found.left_out == {
        "API error messages": 1,
        "records of subagents": 1,
        "thinking (usable only by the original provider)": 1,
        "blocks of type z": 1,
        "compaction boundaries": 1,
        "compaction summaries (the original messages are imported)": 1,
        "images without data": 1,
        "records of type summary": 1,
        "records of type file-history-snapshot": 1,
        "records of type unknown": 1,
    }


def test_the_first_versions_had_no_links(tmp_path: Path) -> None:
    talk = Session("s", "/srv/a").user("Hi").reply("Hello", id=None).user("Bye")
    for record in talk.records:
        del record["uuid"], record["parentUuid"]
    assert texts(read_claude_session(talk.write(tmp_path)).entries) == ["Hi", "Hello", "Bye"]


def test_broken_lines_are_named_and_the_rest_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_session, "MAX_LINE", 100_000)
    talk = (
        Session("s", "/srv/a")
        .user("Hi\0there")
        .reply("A")
        .user("lost")
        .reply("B")
        .user("big" + "x" * 200_000)
        .reply("C")
    )
    lines = talk.write(tmp_path).read_bytes().splitlines(keepends=True)
    lines[2] = lines[2][:40] + b"\xff\n"
    data = [
        b"\xef\xbb\xbf",
        lines[0],
        b"\0" * 30 + b"\n",
        b"\n",
        lines[1].replace(b"A", b"\xff"),
        *lines[2:],
        b"7\n",
        lines[5][:60],
    ]
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(data))
    found = read_claude_session(path)
    assert texts(found.entries) == ["Hi\ufffdthere", "\ufffd", "B", "C"]
    assert found.bad_lines == [
        "line 5 is not a JSON object",
        "line 7 is larger than 0 MB",
        "line 9 is not a JSON object",
        "line 10 is cut off",
    ]
    assert found.left_out["links to missing records"] == 2


NAMES = st.sampled_from(
    """
    type message content role id uuid parentUuid logicalParentUuid isSidechain isMeta timestamp cwd usage payload name
    input arguments call_id tool_use_id text source output info total_token_usage model subtype
    """.split()
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**18) | st.text(max_size=8) | st.sampled_from(["user", "assistant"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=20,
)


BLOCKS = st.sampled_from(["text", "tool_use", "tool_result", "image", "thinking"]).flatmap(
    lambda kind: st.dictionaries(NAMES, JUNK, max_size=5).map(lambda junk: {**junk, "type": kind})
)
CONTENT = JUNK | st.lists(BLOCKS | JUNK, max_size=3)
MESSAGES = st.builds(lambda junk, content: {**junk, "content": content}, st.dictionaries(NAMES, JUNK), CONTENT)
ITEMS = st.builds(
    lambda junk, kind, content: {**junk, "type": kind, "content": content, "role": "user"},
    st.dictionaries(NAMES, JUNK, max_size=4),
    st.sampled_from(["message", "function_call", "function_call_output", "local_shell_call", "token_count"]),
    CONTENT,
)
KINDS = ["user", "assistant", "response_item", "event_msg", "turn_context", "session_meta", None]
RECORDS = st.builds(
    lambda junk, kind, message, payload: {**junk, "type": kind, "message": message, "payload": payload},
    st.dictionaries(NAMES, JUNK, max_size=4),
    st.sampled_from(KINDS),
    MESSAGES | JUNK,
    ITEMS | JUNK,
)


@pytest.mark.matrix
@settings(max_examples=5 * settings().max_examples, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.lists(RECORDS | ITEMS | JUNK, max_size=6))
def test_no_record_breaks_a_reader(tmp_path: Path, records: list[Any]) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    for read in (read_claude_session, read_codex_session):
        assert all(one.id == number for number, one in enumerate(read(path).entries, 1))


def codex_lines(*items: Any) -> str:
    def wrap(item: Any) -> Any:
        kind, payload = item if isinstance(item, tuple) else ("response_item", item)
        return {"timestamp": "2025-11-02T08:00:00.123Z", "type": kind, "payload": payload}

    return "".join(json.dumps(wrap(item)) + "\n" for item in items)


def say(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


CODEX = (
    ("session_meta", {"id": "0199-x", "timestamp": "2025-11-02T08:00:00Z", "cwd": "/srv/a", "cli_version": "0.60.0"}),
    say("developer", "<permissions instructions>"),
    say("user", "<environment_context>\n<cwd>/srv/a</cwd>"),
    ("turn_context", {"cwd": "/srv/a", "model": "gpt-5-codex", "effort": "high"}),
    say("user", "Fix it"),
    ("event_msg", {"type": "user_message", "message": "Fix it"}),
    {"type": "reasoning", "summary": [], "encrypted_content": "zzz"},
    say("assistant", "I look."),
    {"type": "function_call", "name": "shell", "arguments": '{"command": ["ls"]}', "call_id": "call_1"},
    {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin Patch", "call_id": "call_2"},
    {"type": "function_call_output", "call_id": "call_1", "output": '{"output": "a.py", "metadata": {"exit_code": 0}}'},
    {"type": "custom_tool_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "ok"}]},
    (
        "event_msg",
        {
            "type": "token_count",
            "info": {
                "total_token_usage": {
                    "input_tokens": 900,
                    "cached_input_tokens": 700,
                    "output_tokens": 60,
                    "reasoning_output_tokens": 20,
                }
            },
        },
    ),
    ("compacted", {"message": "summary"}),
    say("assistant", "Done."),
    {"type": "function_call", "name": "shell", "arguments": "{broken", "call_id": "call_3"},
)


def test_codex_of_today_and_of_the_first_versions(tmp_path: Path) -> None:
    path = tmp_path / "rollout-2025-11-02T08-00-00-0199.jsonl"
    path.write_text(codex_lines(*CODEX))
    found = read_codex_session(path)
    assert (found.id, found.folder, found.model) == ("0199-x", "/srv/a", "gpt-5-codex")
    assert roles(found.entries) == "uatta" and texts(found.entries) == ["Fix it", "I look.", "a.py", "ok", "Done."]
    calls = found.entries[1].message.tool_calls
    assert calls == (
        ToolCall("call_1", "shell", {"command": ["ls"]}),
        ToolCall("call_2", "apply_patch", {}, "*** Begin Patch"),
    )
    assert [call.id for call in found.open_calls()] == ["call_3"]
    assert found.usage == {"gpt-5-codex": Usage(900, 60, 700, 0, 20, None)}
    assert found.left_out["thinking (usable only by the original provider)"] == 1

    old = [
        {"id": "old", "timestamp": "2025-05-01T00:00:00Z", "instructions": None, "git": {}},
        {"record_type": "state"},
    ]
    items = [one for one in CODEX if isinstance(one, dict)]
    path.write_text("".join(json.dumps(one) + "\n" for one in [*old, *items]))
    again = read_codex_session(path)
    assert again.id == "old" and texts(again.entries) == texts(found.entries) and again.folder == ""


def test_the_summary_of_a_compaction_of_codex_is_no_answer_and_a_tag_of_an_image_no_text(tmp_path: Path) -> None:
    """As codex 0.169 writes them: the reply to its own request, then the record; the image between two tags."""
    path = tmp_path / "rollout-2026-11-26T08-00-00-0199.jsonl"
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}
    tags = ['<image name=[Image #1] path="/srv/a/shot.png">', "</image>", "what is this?"]
    first, second, third = ({"type": "input_text", "text": one} for one in tags)
    asked = {"type": "message", "role": "user", "content": [first, image, second, third]}
    path.write_text(
        codex_lines(
            *(say("user", "<image> is a tag"), asked, say("assistant", "A dot.")),
            *(say("assistant", "Short\n\nSUMMARY"), ("compacted", {"message": "Here is it:\nShort\n\nSUMMARY"})),
            *(say("user", "and now?"), say("assistant", "SUMMARY")),
            *(say("user", "go on"), say("assistant", "All is said."), ("compacted", {"message": "Of another model"})),
        )
    )
    found = read_codex_session(path)
    assert texts(found.entries) == [
        *("<image> is a tag", "what is this?", "A dot.", "and now?", "SUMMARY", "go on", "All is said.")
    ]
    assert len(found.entries[1].message.parts) == 1
    assert found.left_out["compaction summaries (the original messages are imported)"] == 2


@pytest.mark.parametrize(
    "typed", ["/compact", "<command-name>/compact</command-name><command-args>short</command-args>"]
)
def test_a_command_that_claude_code_carries_out_itself_gives_no_title(tmp_path: Path, typed: str) -> None:
    found = read_claude_session(Session("s", "/srv/a").user(typed).user("Fix it").reply("Done.").write(tmp_path))
    assert texts(found.entries) == ["Fix it", "Done."] and found.left_out["built-in commands of Claude Code"] == 1


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Turns of a person and a model with calls, each with its result, in call order."""
    found: list[Message] = []
    for turn in range(draw(st.integers(1, 4))):
        parts = (Part("image/png", base64.b64decode(PNG)),) if draw(st.booleans()) else ()
        found.append(Message(Role.USER, draw(TEXT), parts=parts))
        for step in range(draw(st.integers(0, 3))):
            ids = [f"c{turn}_{step}_{n}" for n in range(draw(st.integers(1, 3)))]
            calls = tuple(ToolCall(one, draw(TEXT), {"a": draw(TEXT), "n": [1, None, 0.5]}) for one in ids)
            found.append(Message(Role.ASSISTANT, draw(st.just("") | TEXT), calls))
            found += [Message(Role.TOOL, draw(st.just("") | TEXT), tool_call_id=one) for one in ids]
        found.append(Message(Role.ASSISTANT, draw(TEXT)))
    return found


@pytest.mark.matrix
@settings(max_examples=60, deadline=None)
@given(messages=conversations())
def test_what_is_exported_is_imported_as_the_same_messages(
    tmp_path_factory: pytest.TempPathFactory, messages: list[Message]
) -> None:
    folder = tmp_path_factory.mktemp("trip")
    kinds = {
        Role.USER: (Kind.USER, "person"),
        Role.ASSISTANT: (Kind.ASSISTANT, "agent"),
        Role.TOOL: (Kind.TOOL, "tool:x"),
    }
    ledger = Ledger.open(None)
    info = ledger.create_session(
        folder=str(folder), project="", model="openai/x", recipe="chat", at="2025-01-01T00:00:00.000Z"
    )
    log = ledger.log(info.id)
    for number, message in enumerate(messages, 1):
        kind, actor = kinds[message.role]
        log.append(Entry(number, f"2025-01-01T00:00:{number % 60:02d}.000Z", actor, kind, message))
    path = folder / ".claude/projects/x/s.jsonl"
    path.parent.mkdir(parents=True)
    lines = claude_lines(log.read(1, log.last_id()), info.id, info.folder, info.model)
    path.write_text("".join(lines), encoding="utf-8")
    done = import_sessions(ledger, "claude", folder / ".claude", "")
    assert (done.new, done.entries, dict(+done.left_out)) == (1, len(messages), {})
    made = next(one for one in ledger.sessions() if one.id != info.id)
    again = ledger.log(made.id)
    assert [one.message for one in again.read(1, again.last_id())] == messages
    assert (made.folder, made.turns, made.model) == (str(folder), ledger.session(info.id).turns, "anthropic/x")
    ledger.close()


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_session_of_ours_comes_back_with_its_name_and_usage(tmp_path: Path, is_taken: bool) -> None:
    ledger = Ledger.open(None)
    at = "2025-01-01T00:00:00.000Z"
    key = ledger.create_session(folder=str(tmp_path), project="", model="openai/x", recipe="chat", at=at).id
    log = ledger.log(key)
    log.begin_epoch(Epoch(0, None, "start", "openai/x", "You help.", (), WireRules().dumps(), (), 0), ())
    for step, used in enumerate((Usage(1000, 100, 600, 200, cost_usd=0.5), Usage(50, 5)), 1):
        log.append(Entry(2 * step - 1, at, "person", Kind.USER, Message(Role.USER, "Hi")))
        log.record_request(Manifest(step, 0, 2 * step - 1, {"model": "openai/x"}, "00" * 32, 100, at), (), ())
        reply = Entry(2 * step, at, "agent", Kind.ASSISTANT, Message(Role.ASSISTANT, "Hello"))
        log.record_reply(reply, step, used, "stop", True)
    ledger.rename_session(key, "fix discount")
    path = tmp_path / ".claude/projects/x/s.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(session_pieces(ledger.log(key), ledger.session(key), "claude")))
    if not is_taken:
        ledger.delete_session(key)
    done = import_sessions(ledger, "claude", tmp_path / ".claude", "")
    (made,) = (one for one in ledger.sessions() if one.id != key)
    assert made.name == ("" if is_taken else "fix discount") and dict(+done.left_out) == {}
    assert done.usage == {"x": Usage(1050, 105, 600, 200, 0, None)}
    ledger.close()


@pytest.mark.matrix
def test_the_timeline_of_an_imported_session_begins_with_a_model_that_can_be_used(tmp_path: Path) -> None:
    Session("s", "/srv/a").user("Hi").write(tmp_path)
    ledger = Ledger.open(None)
    import_sessions(ledger, "claude", tmp_path, "openai/gpt-5")
    assert session_timeline(ledger, ledger.sessions()[0].id)["rows"][0]["text"] == "recipe chat, openai/gpt-5"
    ledger.close()


def test_a_session_in_which_the_ledger_fails_is_not_there_by_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Session("s", "/srv/a").user("Hi").reply("Hello").write(tmp_path)
    ledger = Ledger.open(None)
    with monkeypatch.context() as patch:
        patch.setattr("nexus_cli.imports.store_sessions.Memo", None)
        with pytest.raises(TypeError):
            import_sessions(ledger, "claude", tmp_path, "")
    assert not ledger.sessions() and import_sessions(ledger, "claude", tmp_path, "").new == 1
    ledger.close()


@pytest.mark.matrix
def test_a_huge_message_is_shortened_and_the_rest_can_be_recalled(tmp_path: Path) -> None:
    text = "".join(f"line {number} of a long output\n" for number in range(30_000))
    talk = Session("s", "/srv/a").user("Look").reply("", ("t1", "Bash", {"command": "cat a"})).result("t1", text)
    talk.reply("Long.").write(tmp_path)
    ledger = Ledger.open(None)
    import_sessions(ledger, "claude", tmp_path, "openai/gpt-5")
    log = ledger.log(ledger.sessions()[0].id)
    entries = log.read(1, 4)
    assert entries[2].tokens <= 25_010 and 'recall("d1"' in entries[2].message.content
    assert log.original("d1") == text and entries[2].message.content.startswith("line 0 of")
    talk.user("More").write(tmp_path)
    assert import_sessions(ledger, "claude", tmp_path, "").grown == 1
    ledger.close()


def test_records_that_no_ledger_takes_cost_themselves_alone(tmp_path: Path) -> None:
    """Lone surrogates, deep values and a pipe in the place of a file ended the whole import."""
    deep = (
        '{"type":"assistant","message":{"content":[{"type":"tool_use","input":{"a":' + "[" * 400 + "]" * 400 + "}}]}}"
    )
    text = json.dumps({"type": "user", "cwd": "/srv/\ud800", "message": {"content": "a\ud800b \U0001f600"}})
    (tmp_path / "a.jsonl").write_text(f"{text}\n{deep}\n{text}\n")
    os.mkfifo(tmp_path / "b.jsonl")
    session = read_claude_session(tmp_path / "a.jsonl")
    assert session.folder == "/srv/\ufffd" and session.bad_lines == ["line 2 is nested too deeply"]
    assert [one.message.content for one in session.entries] == ["a\ufffdb \U0001f600"] * 2
    assert read_claude_session(tmp_path / "b.jsonl").bad_lines == ["not a regular file"]


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("<command-message>fix is running…</command-message>\n<command-name>/fix</command-name>", "/fix"),
        (
            "<command-name>/fix</command-name>\n  <command-message>fix</command-message>\n"
            "  <command-args>12 now</command-args>",
            "/fix 12 now",
        ),
        ("<command-name>/fix</command-name> and more", None),
        ("Why does <command-name>/fix</command-name> fail?", None),
    ],
)
def test_a_slash_command_is_taken_over_as_it_was_typed(tmp_path: Path, text: str, typed: str | None) -> None:
    found = read_claude_session(Session("s", "/srv/a").user(text).reply("Done.").write(tmp_path))
    assert texts(found.entries) == [typed or text, "Done."] and found.entries[0].actor == "person"
