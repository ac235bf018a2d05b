"""Run one hook: a project's in the sandbox, the person's own without, bounded in time and output."""

from __future__ import annotations

import json
import os
import re
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from nexus_cli.config.foreign_items import LOADER_VARIABLES, PLUGIN_ROOT, VARIABLE
from nexus_cli.config.host_environment import CHILD_MARK, IN_SESSION
from nexus_cli.config.paths import project_root
from nexus_cli.core.elide import cut_at_word, name_first, one_line
from nexus_cli.core.json_value import JsonDict, JsonObject
from nexus_cli.core.limits import ASK
from nexus_cli.core.shared_types import Environ
from nexus_cli.core.wire import as_table
from nexus_cli.hooks.hook_list import CHANGED, Hook
from nexus_cli.permission.call_permission import CallPermission
from nexus_cli.sandbox.denial import NETWORK_ERRORS
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.files import output_as_text
from nexus_cli.tools.process import BoundedOutput, ProcessResult, find_shell, run_process

BLOCKS = 2
"""Exit status that blocks; the model gets stderr."""
TEXT_EVENTS = ("SessionStart", "UserPromptSubmit")
"""Events at which plain text on stdout is context for the model."""

DECISIONS = {"block": "deny", "deny": "deny", "approve": "allow", "allow": "allow", "ask": "ask", "defer": "ask"}
"""The decisions by the words of hooks; a program that started Claude Code decides what is deferred."""
MAX_NAMED = 5
"""Most keys that a line names."""


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """The decision of one run of a hook, and the text that it adds."""

    decision: str = ""
    """`deny`, `ask`, `allow` or ""; `deny` also stands for a block."""
    reason: str = ""
    context: str = ""
    """Text for the model."""
    message: str = ""
    """Text for the person."""
    updated: JsonObject | None = None
    """The input that takes the place of a call's."""
    stops: bool = False
    """True if the turn ends; `reason` is for the person then."""
    refused: str = ""
    """The request that a project's hook may not make, in a few words."""
    unread: str = ""
    """The keys of `hookSpecificOutput` that nexus does not read."""

    def tighten(self) -> HookAnswer:
        """Return the part that counts if a project's hook answered: nothing that allows or changes input."""
        allows = self.decision == "allow"
        attempts = ["allow a call"] * allows + ["change its input"] * (self.updated is not None)
        return replace(self, decision="" if allows else self.decision, updated=None, refused=" or ".join(attempts))


def read_answer(event: str, status: int, stdout: str, stderr: str) -> HookAnswer:
    """Return the answer of a hook that ended with `status`. With a status that does not count only JSON is one, as in
    Claude Code: a guard may answer and then fail."""
    if status == BLOCKS:
        return HookAnswer("deny", stderr.strip() or stdout.strip())
    value = _read_object(stdout)
    first = None if value else _read_object(stdout.lstrip().partition("\n")[0])
    if first and first.get("async") is True:  # Claude goes on while such a hook runs; what follows is not for the model
        return HookAnswer()
    if value is None:
        return HookAnswer(context=stdout.strip() if event in TEXT_EVENTS and not status else "")
    specific_fields = as_table(value.get("hookSpecificOutput"))
    nested = as_table(specific_fields.pop("decision", None))  # of PermissionRequest
    word = (
        _pop_text(specific_fields, "permissionDecision")
        or _pop_text(nested, "behavior")
        or _pop_text(value, "decision")
    )
    decision = DECISIONS.get(word, "")
    reason = (
        _pop_text(specific_fields, "permissionDecisionReason")
        or _pop_text(nested, "message")
        or _pop_text(value, "reason")
    )
    stops = value.get("continue") is False or nested.get("interrupt") is True
    updated = specific_fields.pop("updatedInput", nested.get("updatedInput"))
    specific_fields.pop("hookEventName", None)
    return HookAnswer(
        "deny" if stops else decision,
        (_pop_text(value, "stopReason") or reason) if stops else reason,
        _pop_text(specific_fields, "additionalContext"),
        _pop_text(value, "systemMessage"),
        updated if isinstance(updated, dict) else None,
        stops,
        unread=one_line(name_first([*specific_fields], MAX_NAMED)),
    )


def _read_object(text: str) -> JsonDict | None:
    try:
        value = json.loads(text) if text.lstrip().startswith("{") else None
        return value if isinstance(value, dict) else None
    except (ValueError, RecursionError):
        return None


def _pop_text(value: JsonDict, key: str) -> str:
    """Return a text of an answer without blanks around, "" for none, and remove its key: those that stay are unread."""
    text = value.pop(key, None)
    return text.strip() if isinstance(text, str) else ""


MAX_BYTES = 1_000_000
"""Most bytes that are kept of stdout, and of stderr."""
LENGTH = 200
"""Most characters of a hook's own words about its failure."""
SETS_VARIABLES, ENV_FILE = "SessionStart", "CLAUDE_ENV_FILE"
"""The event at which a hook may write a script that sets variables, and the variable with its path."""
READS_SCRIPT = f'set -a; . "${ENV_FILE}" >/dev/null 2>&1; /usr/bin/env -0'  # not what the PATH of the script has first
_SHELL_MESSAGE = ("_", "PWD", "OLDPWD", "SHLVL", CHILD_MARK)
SHELL_FAILURE_STATUSES = (126, 127)
"""Exit statuses of a shell that could not start a program."""
NOT_FOUND = re.compile(r"(?:^|: )([\w.+/-]+): (?:command )?not found\s*$", re.MULTILINE)
"""What a shell says of a program that is not there."""
NO_NETWORK = re.compile(rf"{NETWORK_ERRORS}|not found in the cache", re.IGNORECASE)
OK, BLOCKED, FAILED, LATE, NOT_RUN = "ok", "blocked", "failed", "timed out", "not run"


@dataclass(frozen=True, slots=True)
class HookRun:
    """One run of a hook."""

    hook: Hook
    answer: HookAnswer
    outcome: str = OK
    """`ok`, `blocked`, `failed` (no answer, and an exit status that does not count), `timed out` or `not run`."""
    why: str = ""
    """Why it failed or did not run."""
    seconds: float = 0.0

    common_problem: str = ""
    """A line for the person about the cause, if other hooks of the file will have it too; else ""."""
    variables: Environ = field(default_factory=dict)
    """Those that a hook at `SessionStart` sets for later commands, by its script in `CLAUDE_ENV_FILE`."""

    @property
    def is_missing(self) -> bool:
        """True if the hook did not say anything: it took too long or could not run."""
        return self.outcome in (LATE, NOT_RUN)

    @property
    def denies(self) -> bool:
        """True if it refuses what it guards, also because it did not say anything and has to."""
        return self.answer.decision == "deny" or (self.is_missing and self.hook.table.on_timeout == "deny")

    @property
    def reason(self) -> str:
        """The reason of its answer, else of its failure."""
        return self.answer.reason or self.why


def _shorten(output: str) -> str:
    """Return the output of a hook on one line; of a long one the last line, in which a traceback has the error."""
    text = one_line(output)
    return cut_at_word(text if len(text) <= LENGTH else one_line(output.rstrip().rpartition("\n")[2]), LENGTH)


def run_hook(hook: Hook, input_data: bytes, cwd: Path, permission: CallPermission, stop: StopFlag) -> HookRun:
    """Run `hook` with `input_data` on stdin. Blocks; never raises, except `ThreadStopped`.

    A project's hook runs in its folder, a plugin's in the project, both in the sandbox profile `write`; if its
    files have changed it does not run.
    """
    changed = hook.why if hook.state == CHANGED else hook.find_change()
    if changed:
        return HookRun(hook, HookAnswer(), NOT_RUN, changed)
    began = time.monotonic()
    try:
        with _place_script(hook, permission) as script:
            result, stderr, variables = _start(hook, input_data, cwd, permission, stop, script)
    except (OSError, ValueError) as error:
        return HookRun(hook, HookAnswer(), NOT_RUN, f"the hook could not be started: {one_line(str(error))}")
    seconds = round(time.monotonic() - began, 3)
    if result.timed_out:
        return HookRun(hook, HookAnswer(), LATE, f"timed out after {hook.table.timeout:g} s", seconds)
    stdout = output_as_text(result.output)
    words = _shorten(stderr or stdout)
    answer = read_answer(hook.table.event, result.status, stdout, stderr)
    has_answered = result.status in (0, BLOCKS) or (answer != HookAnswer() and not hook.is_codex)
    if result.status in SHELL_FAILURE_STATUSES and not has_answered:
        if missing := NOT_FOUND.search(stderr):
            why = f"{missing[1]}: command not found"
            notice = f"a hook from {hook.source} did not run: {why}. Install the program; `nexus hooks` lists hooks"
            return HookRun(hook, HookAnswer(), NOT_RUN, why, seconds, notice)
        return HookRun(hook, HookAnswer(), NOT_RUN, f"a program could not be started: {words}", seconds)
    if not has_answered:
        why = f"exit {result.status}{': ' if words else ''}{words}"
        notice = ""
        if not hook.is_personal and NO_NETWORK.search(stderr):
            notice = f"a hook from {hook.source} failed, perhaps because only hooks in your config.toml have network "
            notice += "access; `nexus timeline` shows the error"
        return HookRun(hook, HookAnswer(), FAILED, why, seconds, notice)
    answer = answer if hook.is_personal else answer.tighten()
    return HookRun(hook, answer, BLOCKED if answer.decision == "deny" else OK, "", seconds, variables=variables)


@contextmanager
def _place_script(hook: Hook, permission: CallPermission) -> Iterator[Path | None]:
    """Yield the path of the script by which a hook sets variables, None at other events. Those of a personal hook hold
    outside of the sandbox too: its script is where no sandboxed command writes."""
    if hook.table.event != SETS_VARIABLES:
        yield None
    elif hook.is_personal:
        with TemporaryDirectory(prefix="nexus-hook-") as folder:
            yield Path(folder) / "variables.sh"
    else:
        yield permission.temp_folder() / f"{uuid.uuid4()}.sh"


def _start(
    hook: Hook, input_data: bytes, cwd: Path, permission: CallPermission, stop: StopFlag, script: Path | None
) -> tuple[ProcessResult, str, Mapping[str, str]]:
    """Run the command; return its result with stdout, its stderr, and the variables that it sets."""
    folder, confinement = project_root(cwd) if hook.is_plugin else hook.folder or cwd, None
    env: Environ = os.environ
    if not hook.is_personal:
        probe = permission.load(ASK)
        if probe is None or probe.backend == "none":
            raise OSError("no sandbox is available here")
        sandbox = permission.make_sandbox("write", asks=False, hook=True)
        env, confinement = sandbox.env, sandbox.confinement
    env = {**env, "CLAUDE_PROJECT_DIR": str(folder), "NEXUS_PROJECT_DIR": str(folder), IN_SESSION: "1"}
    if hook.is_plugin:  # a compiled file in its folder would be a change of the plugin
        env |= {PLUGIN_ROOT: str(hook.folder), "PYTHONDONTWRITEBYTECODE": "1"}
    env |= {ENV_FILE: str(script)} if script else {}
    run = partial(run_process, cwd=folder, env=env, stop=stop, merge=False, confinement=confinement)
    read_end, write_end = os.pipe()
    stderr = BoundedOutput(MAX_BYTES)
    drain = threading.Thread(target=_drain, args=(read_end, stderr), daemon=True)
    drain.start()
    try:
        result = run(
            [find_shell(folder), "-c", f"exec 2>&{write_end} {write_end}>&-\n{hook.table.command}"],
            seconds=hook.table.timeout,
            stdin=input_data,
            keep=MAX_BYTES,
            pass_fds=(write_end,),
        )
        variables = dict[str, str]()
        if script is not None and os.path.lexists(script):
            listing = run([find_shell(folder), "-c", READS_SCRIPT], seconds=hook.table.timeout, keep=MAX_BYTES).output
            pairs = (text.partition("=") for text in output_as_text(listing).split("\0"))
            left_out = () if hook.is_personal else LOADER_VARIABLES
            variables = {
                variable: value
                for variable, _, value in pairs
                if VARIABLE.fullmatch(variable)
                and env.get(variable) != value
                and not (variable in _SHELL_MESSAGE or variable.startswith(left_out))
            }
    finally:
        os.close(write_end)
        drain.join(1.0)
    return result, output_as_text(stderr.join()), variables


def _drain(read_end: int, output: BoundedOutput) -> None:
    """Collect a pipe until its last writer has ended."""
    with open(read_end, "rb", buffering=0) as pipe:
        while data := pipe.read(1 << 16):
            output.add(data)
