"""Messages to a running turn pass the hooks of a prompt too."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from ui.put_clock import run_at_once

from nexus_cli.config.hook_tables import HookTable
from nexus_cli.config.trust import trust
from nexus_cli.context.manager import ContextManager
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Notice
from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import SeenFileStore
from nexus_cli.core.tool import ToolContext
from nexus_cli.engine.calls import hooked_files, session_hooks
from nexus_cli.engine.calls.session_hooks import SessionHooks
from nexus_cli.engine.requests.control import Control
from nexus_cli.hooks.hook_list import Hook
from nexus_cli.hooks.run_hook import HookAnswer, HookRun
from nexus_cli.permission.call_decision import CheckedCall
from nexus_cli.permission.call_permission import CallPermission
from nexus_cli.tools.files import sha256_hex
from nexus_cli.tools.registry import discover_tools


def make_hooks(
    folder: Path, tables: Sequence[HookTable], control: Control | None = None, *, is_worker: bool = False
) -> SessionHooks:
    """The hooks of a session whose newest message is a reply."""
    context, permission = ContextManager(), CallPermission(folder, folder)
    context.add_assistant_message("Done.")
    return SessionHooks(tables, permission, folder, "s", lambda: "ask", context, control or Control(), is_worker)


def make_context(folder: Path, seen: SeenFiles | None = None, *names: str) -> ToolContext:
    """The context of a call that edits the files `names` of the folder."""
    targets = {name: folder / name for name in names}
    return ToolContext(folder, folder, 1000, "c1", lambda text: None, {SeenFileStore: seen}, targets=targets)


class SeenFiles(dict[str, str]):
    """`SeenFileStore` in memory."""

    def digest(self, path: str) -> str | None:
        return self.get(path)

    def note(self, path: str, digest: str, how: str) -> None:
        self[path] = digest


async def test_a_message_to_the_running_turn_is_refused_as_a_prompt_is(tmp_path: Path) -> None:
    guard = HookTable("UserPromptSubmit", "grep -q secret && { echo no secrets >&2; exit 2; }; exit 0")
    control = Control()
    hooks = make_hooks(tmp_path, (guard,), control)
    control.steering.extend([Trigger("the secret"), Trigger("go on")])

    control.events = asyncio.Queue()
    await hooks.admit_steering()
    told = control.events.get_nowait()
    assert [one.text for one in control.steering] == ["go on"]
    assert isinstance(told, Notice) and "your message was not sent" in told.text and "no secrets" in told.text


def test_a_hook_refuses_a_compaction_and_is_told_who_wanted_it(tmp_path: Path) -> None:
    line = "cat >> given; echo >> given; echo keep it >&2; exit 2"
    guard = HookTable("PreCompact", line, matcher="manual")
    hooks = make_hooks(tmp_path, (guard,))
    asyncio.run(hooks.before_compaction(False, ""))
    assert not (tmp_path / "given").exists()
    with pytest.raises(NexusError, match="keep it") as refused:
        asyncio.run(hooks.before_compaction(True, "the plan"))
    given = json.loads((tmp_path / "given").read_text())
    assert refused.value.kind == "denied"
    assert (given["trigger"], given["custom_instructions"]) == ("manual", "the plan")


async def test_what_a_hook_blocks_a_call_with_is_told_to_the_person_too(tmp_path: Path) -> None:
    """`PostToolUse`: the file was written, and the model alone knew that a linter objects."""
    check = HookTable("PostToolUse", "echo 'a.py:1: never closed' >&2; exit 2")
    control = Control()
    hooks = make_hooks(tmp_path, (check,), control)
    checked = CheckedCall(discover_tools()["write_file"], {"path": "a.py", "content": "("}, {})

    async def work() -> ToolResult:
        return ToolResult("created a.py, 1 line")

    control.events = asyncio.Queue()
    result = hooks.add_words(checked.call, await hooks.run_call(checked, make_context(tmp_path), work))
    assert "a.py:1: never closed]" in result.text
    told = control.events.get_nowait()
    assert isinstance(told, Notice) and told.text.startswith("hook echo") and "a.py:1: never closed" in told.text


async def test_the_model_is_told_what_a_formatter_changed_in_a_file_that_it_edited(tmp_path: Path) -> None:
    """The next edit failed otherwise: it quoted the text as the model had written it."""
    hooks = make_hooks(tmp_path, (HookTable("PostToolUse", "sed -i s/x/yy/ a.py b.py c.py"),))
    checked = CheckedCall(discover_tools()["write_file"], {"path": "a.py", "content": ""}, {})
    written = {"a.py": "1\n\nx = 1\n", "b.py": "x" + "\nx" * 1000, "c.py": "1\n", "stale.py": "x\n"}
    seen = SeenFiles()

    async def work() -> ToolResult:
        for name, text in written.items():
            (tmp_path / name).write_text(text)
            seen.note(str(tmp_path / name), "" if name == "stale.py" else sha256_hex(text.encode()), "created")
        return ToolResult("created", changed=tuple(written))

    context = make_context(tmp_path, seen, *written)
    assert hooks.add_words(checked.call, await hooks.run_call(checked, context, work)).text == (
        "created\n[hooks changed a.py after this call]\n@@ -1,3 +1,3 @@\n 1\n \n-x = 1\n+yy = 1\n"
        "[hooks changed b.py after this call: read it before you edit it again]"
    )
    is_known = [seen[str(tmp_path / name)] == sha256_hex((tmp_path / name).read_bytes()) for name in written]
    assert is_known == [True, False, True, False]


@pytest.mark.parametrize("guard", [("PostToolUse", "Bash"), ("PreToolUse", "*")])
async def test_an_edit_reads_no_file_if_no_hook_follows_it(
    tmp_path: Path, guard: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    event, matcher = guard
    hooks = make_hooks(tmp_path, (HookTable(event, "true", matcher=matcher),))
    checked = CheckedCall(discover_tools()["write_file"], {"path": "a.py", "content": ""}, {})
    read = list[Path]()

    def note(paths: Iterable[Path]) -> dict[Path, bytes]:
        read.extend(paths)
        return {}

    monkeypatch.setattr(session_hooks, "read_files", note)

    async def work() -> ToolResult:
        return ToolResult("created", changed=("a.py",))

    assert (await hooks.run_call(checked, make_context(tmp_path, SeenFiles(), "a.py"), work)).text == "created"
    assert not read


async def test_a_change_of_a_file_that_is_too_large_to_compare_is_told_without_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is compared is compared beside the event loop."""
    monkeypatch.setattr(hooked_files, "LARGEST", 9)
    hooks = make_hooks(tmp_path, (HookTable("PostToolUse", "echo more >> a.py"),))
    checked = CheckedCall(discover_tools()["write_file"], {"path": "a.py", "content": ""}, {})
    asked_in: list[threading.Thread] = []

    class Asked(SeenFiles):
        def digest(self, path: str) -> str | None:
            asked_in.append(threading.current_thread())
            return super().digest(path)

    seen = Asked({str(tmp_path / "a.py"): sha256_hex(b"x" * 20)})

    async def work() -> ToolResult:
        (tmp_path / "a.py").write_text("x" * 20)
        return ToolResult("created", changed=("a.py",))

    assert (
        hooks.add_words(checked.call, await hooks.run_call(checked, make_context(tmp_path, seen, "a.py"), work)).text
        == "created\n[hooks changed a.py after this call: read it before you edit it again]"
    )
    assert asked_in and threading.main_thread() not in asked_in


def notified(tmp_path: Path, seconds: float, *, is_asked: bool = False, answers: bool = False) -> list[tuple[str, str]]:
    """What a hook was told if `seconds` pass after a turn, or after a question, which is answered before that."""
    note = HookTable("Notification", f"cat >> {tmp_path}/given")
    hooks = make_hooks(tmp_path, (note,))

    async def wait() -> None:
        if is_asked:
            with hooks.notify_unanswered():
                await asyncio.sleep(0 if answers else seconds)
            await asyncio.sleep(seconds)
        else:
            hooks.end_turn()
            if answers:
                await hooks.begin_turn("", is_resumed=False)
            await asyncio.sleep(seconds)
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

    run_at_once(wait())
    path = tmp_path / "given"
    given = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [(one["notification_type"], one["message"]) for one in given]


def test_a_person_who_does_not_answer_is_notified_when_claude_would_do_so(tmp_path: Path) -> None:
    asked, idle = (
        ("permission_prompt", "nexus needs your permission"),
        ("idle_prompt", "nexus is waiting for your input"),
    )
    assert notified(tmp_path / "a", 5, is_asked=True) == [] == notified(tmp_path / "b", 59)
    (tmp_path / "c").mkdir()
    (tmp_path / "d").mkdir()
    assert notified(tmp_path / "c", 7, is_asked=True) == [asked]
    assert notified(tmp_path / "d", 61) == [idle]
    (tmp_path / "e").mkdir()
    assert notified(tmp_path / "e", 99, is_asked=True, answers=True) == [] == notified(tmp_path / "e", 99, answers=True)


def test_the_variables_of_a_start_are_read_by_no_program_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("#!/bin/sh\ntouch ran\n")
    (tmp_path / "env").chmod(0o755)
    script = 'export PATH=".:$PATH" TEAM=a; PLAIN=b; ls() { id; }; export -f ls'
    start = HookTable("SessionStart", f"""echo '{script}' >> "$CLAUDE_ENV_FILE\"""")
    hooks = make_hooks(tmp_path, (start,))
    asyncio.run(hooks.begin_turn("", is_resumed=False))
    assert {*hooks.permission.variables} == {"PATH", "TEAM", "PLAIN"} and not (tmp_path / "ran").exists()


async def test_an_asynchronous_hook_of_the_end_runs_and_one_that_the_end_stops_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    hooks = make_hooks(tmp_path, ())
    own = [Hook(HookTable(event, f"touch {event}"), "config.toml", is_async=True) for event in ("Stop", "SessionEnd")]
    monkeypatch.setattr(session_hooks, "list_hooks", lambda cwd, personal: own)

    await hooks.begin_turn("", is_resumed=False)
    assert not await hooks.next_message()
    await hooks.end()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert (tmp_path / "SessionEnd").exists() and not list(recwarn)


def test_the_end_of_a_worker_without_hooks_writes_no_transcript(tmp_path: Path) -> None:
    hooks = make_hooks(tmp_path, (), is_worker=True)
    assert not asyncio.run(hooks.next_message()) and hooks.permission._temp is None


@pytest.mark.parametrize("is_trusted", [True, False])
def test_variables_of_settings_of_claude_are_those_of_sandboxed_commands_once_they_are_trusted(
    tmp_path: Path, is_trusted: bool
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".claude").mkdir()
    env = {"TEAM": "a", "COUNT": 5, "ON": True, "LD_PRELOAD": "x", "a b": "x", "GIT_CONFIG_COUNT": "1"}
    (tmp_path / ".claude" / "settings.json").write_text(json.dumps({"env": env}))
    (tmp_path / ".claude" / "settings.local.json").write_text(json.dumps({"env": {"TEAM": "own"}}))
    if is_trusted:
        trust(tmp_path)
    hooks = make_hooks(tmp_path, ())
    asyncio.run(hooks.begin_turn("", is_resumed=False))
    named = {"TEAM": "own", "COUNT": "5", "ON": "true", "GIT_CONFIG_COUNT": "1"} if is_trusted else {}
    assert hooks.permission._list_variables("write", is_walled=True) == named
    assert hooks.permission._list_variables("none", is_walled=False) == {}
    assert "GIT_CONFIG_COUNT" not in hooks.permission._list_variables("read", is_walled=True)


def test_a_project_does_not_take_a_variable_of_the_person_from_commands_outside_the_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, theirs = (Hook(HookTable("SessionStart", "true"), source) for source in ("config.toml", "settings.json"))
    theirs = replace(theirs, folder=tmp_path)
    runs = [
        HookRun(own, HookAnswer(), variables={"STAGE": "test"}),
        HookRun(theirs, HookAnswer(), variables={"STAGE": "x"}),
    ]
    hooks = make_hooks(tmp_path, ())

    async def fire(event: str, *rest: object) -> list[HookRun]:
        return runs if event == "SessionStart" else []

    monkeypatch.setattr(hooks, "_fire", fire)
    asyncio.run(hooks.begin_turn("", is_resumed=False))
    assert hooks.permission.variables == {"STAGE": ("test", True)}
