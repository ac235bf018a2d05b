"""A live view of a space: its messages, new ones as they arrive, working agents, and a prompt.

Implements `ReplController`. A thread waits for changes of the ledger over its own connection; nothing is read before a
commit. `answer_agents` runs the agents.
"""

from __future__ import annotations

import asyncio
import shlex
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

from nexus_cli.commands import parse
from nexus_cli.commands.forms import find_form
from nexus_cli.commands.space import SpaceMessageObject, message_json, message_lines, read_space
from nexus_cli.config.settings import Settings
from nexus_cli.core.clock import format_local_minute, utc_now
from nexus_cli.core.daemon_task import DaemonTask, run_tasks
from nexus_cli.core.elide import plural
from nexus_cli.core.errors import NexusError
from nexus_cli.core.run import (
    AGENT,
    DONE,
    FAILED,
    QUEUED,
    RUNNING,
    WAITING,
    Entity,
    Run,
    Space,
    SpaceMessage,
    find_mentions,
    fold_name,
)
from nexus_cli.core.shared_types import T
from nexus_cli.ledger import Ledger
from nexus_cli.ledger.spaces import is_muted
from nexus_cli.reports.text.blocks import lay_out
from nexus_cli.spaces.post_message import post_message
from nexus_cli.text.cells import one_line, wrap
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.input.paste import TypedMessage
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.repl.job_runner import JobRunner
from nexus_cli.ui.repl.space_approvals import ApprovalQuestions, RunAnswers, RunClaim
from nexus_cli.ui.repl.view import ReplController, ReplView

AnswerAgents = Callable[[asyncio.Event], Awaitable[None]]
"""Runs the agents of the space until the event is set."""
LAST = 50
"""Messages that are shown at the beginning."""
MAX_CHARACTERS = 8_000
"""Most characters of a message that are shown, followed by the number of the others."""
AT_ONCE = 500
"""Most messages that are shown at once; for more, their number is shown."""
WAIT_SECONDS = 2.0
"""Seconds between the thread's checks for the end of the view."""
LEAVE_SECONDS = 1.0
"""Seconds that working agents have when the person leaves."""
POST_SECONDS = 60.0
"""Time limit for posting, including the router's model."""
COMMANDS: Mapping[str, str] = {
    "approve": "Show pending approvals again.",
    "help": "List these commands.",
    "leave": "Close the view (also Ctrl+D); you remain a member.",
    "mute": "Stop messages here from starting the agent NAME; /unmute NAME undoes this.",
    "stop": "Cancel active, waiting and queued runs here; with NAME, only those of one agent.",
    "who": "List the members of the space.",
}
"""The supported commands with their line of help."""
KEYS = (
    ("Enter", "posts the message"),
    ("Shift+Enter, \\ Enter", "inserts a new line (also Ctrl+J)"),
    ("Esc", "stops running agents"),
    ("Up", "earlier messages"),
    ("Ctrl+C", "stops running agents and clears the line; press twice to exit"),
    ("Ctrl+D", "exits if the line is empty, like /leave, exit and quit"),
    ("Tab", "completes @names"),
    ("Ctrl+R", "searches earlier messages"),
    ("Ctrl+G", "edits the text in your editor"),
    ("@NAME", "starts this agent; /help lists the commands"),
)
"""The keys that work here."""


class SpaceChat(ReplController):
    """One space as seen by one member."""

    def __init__(
        self,
        ledger: Ledger,
        settings: Settings,
        space: Space,
        member: Entity,
        view: ReplView,
        theme: Theme,
        answer_agents: AnswerAgents,
    ) -> None:
        self._ledger, self._settings = ledger, settings
        self._space, self._member = space, member
        self.view, self.theme = view, theme
        self._answer_agents = answer_agents
        self._last = 0
        """Key of the newest message shown."""
        self._day = ""
        self._working: Sequence[Run] = ()
        self._missing: Mapping[int, Sequence[int]] = {}
        """Members whose reply is missing, by key of the run that waits for it."""
        self._answers: Mapping[RunClaim, RunAnswers] = {}
        """Answers to approvals that their runs have not taken yet."""
        self._ended = set[int]()
        """Keys of the runs that are known to have failed."""
        self._echoed = set[int]()
        """Keys of own messages that the terminal shows already."""
        self._showing, self._posting = asyncio.Lock(), asyncio.Lock()
        self._posts = set[asyncio.Task[None]]()
        self._changed, self._stop = asyncio.Event(), asyncio.Event()
        self._is_leaving = threading.Event()
        self._jobs = JobRunner(self.show_note, name=str)  # the commands of a session do not work here
        self._approvals = ApprovalQuestions(ledger, view, theme, self.show_note, self._jobs, member.name)

    def member_names(self) -> list[str]:
        """Return the names of the other members, for completion."""
        return [member.name for member in self._space.members if member.key != self._member.key]

    # Content of the view

    keys = KEYS
    moving = False

    @property
    def running(self) -> bool:
        """See `ReplController`: True while an agent works."""
        return any(run.state == RUNNING for run in self._working)

    def queued(self) -> list[str]:
        return [f"sending {len(self._posts)}"] if self._posts else []

    def status(self, width: int) -> str:
        """See `ReplController`: the space, with agents that work in it or wait for somebody."""
        text = self.theme.dot.join([one_line(self._space.name), *self._states()])
        return self.theme.paint("dim", self.theme.cut(text, max(0, width - 1)))

    def _states(self) -> list[str]:
        names = {member.key: member.name for member in self._space.members}
        states = []
        for run in self._working:
            name = names.get(run.entity or 0, "somebody")
            if run.state == WAITING and (run.key, run.fence) in self._answers:
                states.append(f"{one_line(name)} has your answer")
            elif run.state == WAITING and run.waits is not None:
                who = ["you" if key == self._member.key else names[key] for key in self._missing.get(run.key, ())]
                why = run.waits.why.removesuffix(f' in "{self._space.name}"')
                if who:
                    why = " and ".join(who) if "you" in who else f"a reply of {' and '.join(who)}"
                states.append(one_line(f"{name} is waiting for {why}"))
            else:
                states.append(f"{one_line(name)} {'is working...' if run.state == RUNNING else 'is queued'}")
        return list(dict.fromkeys(states))

    # Actions of the person

    def submit(self, typed: TypedMessage) -> None:
        """Enter: a message, or one of `COMMANDS`."""
        if typed.text.strip().casefold() in ("exit", "quit"):
            self.request_exit()
        elif (command := parse(typed.text)) is not None:
            self._command(*command)
        else:
            self._begin_post(self._post(typed.text))
        self.view.invalidate()

    def _command(self, name: str, arguments: str) -> None:
        if name in ("leave", "exit", "quit"):
            self.request_exit()
        elif name == "help":
            self.show_note("\n".join(f"/{command:7} {description}" for command, description in COMMANDS.items()))
        elif name == "who":
            self.show_note(", ".join(map(self._described, self._space.members)))
        elif name in ("stop", "mute", "unmute"):
            self._on_agent(name, arguments)
        elif name == "approve":
            if not self._approvals.ask_again():
                self.show_note("no approval is pending")
            self._changed.set()
        else:
            hint = "/help lists the commands; with a leading space it is posted as text"
            self.show_note(f"/{one_line(name)} is not a command here; {hint}", "warn")

    def _described(self, entity: Entity) -> str:
        kind = "agent, muted" if is_muted(entity, self._space.key) else "agent"
        return f"{entity.name} ({kind})" if entity.kind == AGENT else entity.name

    def _on_agent(self, action: str, agent_name: str) -> None:
        """Stop or mute the agent named `agent_name`; without a name stop all."""
        folded_name = fold_name(agent_name.removeprefix("@"))
        agents = [
            member
            for member in self._space.members
            if member.kind == AGENT and folded_name in ("", fold_name(member.name))
        ]
        if not agents or (not folded_name and action != "stop"):
            names = ", ".join(member.name for member in self._space.members if member.kind == AGENT)
            self.show_note(f"/{action} needs an agent name: {names or 'this space has no agents'}", "warn")
        elif action == "stop":
            self._stop_runs({agent.key for agent in agents}, (RUNNING, WAITING, QUEUED))
        else:
            self._change(lambda: self._mute(agents[0], muted=action == "mute"))

    def _mute(self, agent: Entity, *, muted: bool) -> str:
        self._ledger.spaces.mute(self._space, agent, muted=muted)
        return f"{agent.name} is {'muted here' if muted else 'no longer muted'}"

    def _stop_runs(self, agents: Collection[int], states: Sequence[str]) -> None:
        def stop() -> str:
            runs = self._ledger.runs
            active_runs = [
                run for run in runs.list_runs(states, AT_ONCE, space=self._space.key) if run.entity in agents
            ]
            for run in active_runs:
                runs.cancel(run.key, utc_now())
            return (
                f"stopped {plural(len(active_runs), 'run')}: {', '.join(run.id for run in active_runs)}"
                if active_runs
                else "nothing runs"
            )

        self._change(stop)

    def _change(self, work: Callable[[], str]) -> None:
        """Do `work` in a thread and show its result once the view knows what changed."""

        async def change() -> None:
            result = await _in_thread(work)
            try:
                await self._show_new()
            finally:
                self.show_note(one_line(result))

        self._begin_post(change())

    def _begin_post(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._jobs.start_background(work)
        self._posts.add(task)
        task.add_done_callback(self._posted)

    def enqueue(self, typed: TypedMessage) -> None:
        """Alt+Enter while an agent works: break the line, as it does else."""
        self.view.fill(f"{typed.text}\n")

    def edit_last(self) -> None:
        """Report that messages cannot be changed."""
        self.show_note("posted messages cannot be changed")

    def interrupt(self, *, gently: bool = False) -> None:
        """Stop the agents that work; what is queued and what waits stays."""
        self._stop_runs({member.key for member in self._space.members}, (RUNNING,))

    def request_exit(self, *, asks: bool = False) -> None:
        """Leave the view; the membership stays."""
        if not self._stop.is_set():
            self._stop.set()
            self.view.leave()

    def cycle_level(self) -> None:
        """Report that agents have their own permission levels."""
        self.show_note("agents have a separate level; to set it: nexus space create SPACE --agent NAME --allow LEVEL")

    def show_last_output(self) -> None:
        """Show the command that lists everything."""
        self.show_note(f"nexus space read --last N {shlex.quote(self._space.name)} prints more messages")

    def show_note(self, text: str, role: str = "dim") -> None:
        """Show a line to the person."""
        self.view.put(self.theme.paint(role, "\n".join(wrap(sanitize(text), self.view.width))) + "\n")

    # Posting

    async def _post(self, text: str) -> None:
        try:
            async with self._posting:  # in the order of typing
                posted = await _in_thread(
                    lambda: post_message(self._ledger, self._settings, self._space, self._member, text, self._warn)
                )
                if self.view.echoes:
                    self._echoed.add(posted.message.key)
        except NexusError as error:
            self.show_note(error.line, "error")
            self.view.fill(text)
        else:
            await self._show_new()

    def _warn(self, line: str) -> None:
        """Show a line from another thread."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.show_note, f"nexus: {line}", "warn")

    def _posted(self, task: asyncio.Task[None]) -> None:
        self._posts.discard(task)
        self.view.invalidate()

    # Other members

    async def run(self) -> None:
        """Run until the person leaves or the terminal is gone."""
        self._loop = asyncio.get_running_loop()
        await self._begin()
        threading.Thread(target=self._watch, name="nexus-space", daemon=True).start()
        self._jobs.start_background(self._follow())
        answering = self._jobs.start_background(self._answer())
        patience = 0.0
        try:
            await self.view.run(self)
            while self._posts:
                await asyncio.wait(set(self._posts))
            patience = LEAVE_SECONDS
        finally:
            self._stop.set()
            await asyncio.wait([answering], timeout=patience)
            await self._jobs.settle()
            self._is_leaving.set()
        with suppress(NexusError):
            await self._show_new()

    async def _begin(self) -> None:
        value = await _in_thread(lambda: read_space(self._ledger, self._space, self._member, LAST))
        shortened = {**value, "messages": [_shortened(message) for message in value["messages"]]}
        self.view.put(find_form("space_messages")(shortened, self.view.width) + "\n")
        if messages := value["messages"]:
            self._last = int(messages[-1]["id"].partition("-")[2])
            self._day = format_local_minute(messages[-1]["at"], "%Y-%m-%d")
        self._ended = {run.key for run in await _in_thread(self._ended_runs)}
        await self._show_new()

    def _watch(self) -> None:
        """Wait for changes of the ledger, in a separate thread."""
        try:
            ledger = self._ledger.reconnect()
            try:
                while not self._is_leaving.is_set():
                    if ledger.db.wait_for_change(WAIT_SECONDS):
                        self._loop.call_soon_threadsafe(self._changed.set)
            finally:
                ledger.close()
        except NexusError as error:
            self._warn(error.message)
        except RuntimeError:
            pass  # the loop has ended

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._show_new()
            except NexusError as error:
                self.show_note(error.line, "error")

    async def _answer(self) -> None:
        try:
            await self._answer_agents(self._stop)
        except NexusError as error:
            self.show_note(f"agents cannot run here: {error.message}", "warn")

    async def _show_new(self) -> None:
        """Show new messages once, and the agents that work now."""
        async with self._showing:
            space, skipped, messages, self._working, ended = await _in_thread(self._look)
            self._missing, self._answers = await _in_thread(lambda: self._find_waits(space))
            if self._member.key not in {member.key for member in space.members} and not self._stop.is_set():
                self.show_note(f"You are no longer in {one_line(space.name)}.", "warn")
                self.request_exit()
            self._space = space
            names = {member.key: member.name for member in space.members}
            self._approvals.follow(self._working, names, self._answers)
            if skipped:
                self.show_note(f"{plural(skipped, 'earlier message')} (to read more: nexus space read --last N SPACE)")
            for message in messages:
                self._last = message.key
                if message.key in self._echoed:
                    self._echoed.discard(message.key)
                    continue
                self._show(message)
            for run in ended:
                if run.key not in self._ended:
                    self._ended.add(run.key)
                    self._show_end(run, names.get(run.entity or 0, "an agent"))
            self.view.invalidate()

    def _show_end(self, run: Run, name: str) -> None:
        """Show what the record has of a run that ended, beside the words of its agent."""
        facts = ", ".join(run.facts)
        if run.state == FAILED:
            suffix = f" ({facts}; to resume: nexus runs resume {run.id})" if facts else ""
            self.show_note(one_line(f"{name} failed: {run.error}{suffix}"), "error")
        elif facts:
            self.show_note(f"{name}: {facts} (details: nexus runs show {run.id})")

    def _ended_runs(self) -> list[Run]:
        return self._ledger.runs.list_runs([DONE, FAILED], LAST, space=self._space.key)

    def _look(self) -> tuple[Space, int, list[SpaceMessage], list[Run], list[Run]]:
        """Read new messages in a thread and mark them as read."""
        table = self._ledger.spaces
        space = table.get(self._space.key)
        messages = table.read(space, after=self._last, limit=AT_ONCE)
        skipped = table.count(space, after=self._last, before=messages[0].key) if len(messages) == AT_ONCE else 0
        if messages:
            table.mark_seen(space.key, self._member.key, messages[-1].key)
        working = self._ledger.runs.list_runs((RUNNING, WAITING, QUEUED), space=space.key)
        return space, skipped, messages, working, self._ended_runs()[::-1]

    def _find_waits(self, space: Space) -> tuple[dict[int, list[int]], dict[RunClaim, RunAnswers]]:
        """Return the members whose replies are missing, by key of the run, and the answers to approvals."""
        members, missing = [member.key for member in space.members], dict[int, list[int]]()
        for run in self._working:
            if run.waits is not None and run.waits.kind == "reply" and run.waits.value["space"] == space.key:
                messages = self._ledger.spaces.read(space, after=run.waits.value["message"], limit=AT_ONCE)
                senders, asked_members = {message.sender.key for message in messages}, run.waits.value["from"]
                missing[run.key] = [key for key in members if key in asked_members and key not in senders]
        return missing, self._approvals.find_answers(self._working)

    def _show(self, message: SpaceMessage) -> None:
        width = self.view.width
        lines = lay_out(message_lines(_shortened(message_json(message, is_seen=True)), width), width)
        if (day := format_local_minute(message.at, "%Y-%m-%d")) != self._day:
            self._day, lines = day, ["", day, *lines]
        self.view.put("\n".join(lines) + "\n")
        if find_mentions(message.text, [self._member.name]):
            self.view.notify(one_line(f"{message.sender.name} in {self._space.name}: {message.text[:100]}"))


def _shortened(message: SpaceMessageObject) -> SpaceMessageObject:
    """Return a message for the screen: of a long text the beginning."""
    text = message["text"]
    if len(text) <= MAX_CHARACTERS:
        return message
    cut = f"{text[:MAX_CHARACTERS]}\n[{len(text) - MAX_CHARACTERS:,} more characters; to read all: nexus space read]"
    return SpaceMessageObject(message, text=cut)


async def _in_thread(work: Callable[[], T]) -> T:
    """Return the result of blocking work; raise `NexusError("ledger", ...)` if it takes too long."""
    task = DaemonTask(work, POST_SECONDS)
    await run_tasks([task])
    if task.error is not None:
        raise task.error
    if not task.ended:
        raise NexusError("ledger", "the space", f"the ledger did not answer within {POST_SECONDS:.0f} s", "Try again")
    return task.value
