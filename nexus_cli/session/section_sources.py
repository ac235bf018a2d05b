"""Build the section collector of a session, and read the session data that contributors need.

`SessionSources` reads files, hidden history and the trigger of the turn.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

from nexus_cli.config.foreign_items import may_have_servers
from nexus_cli.config.paths import project_root, repository_root
from nexus_cli.config.settings import Settings
from nexus_cli.context.manager import ContextManager
from nexus_cli.context.sysinfo import SERVER_MODE
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.core.entry import Kind, Memo
from nexus_cli.core.entry_ranges import ranges_of
from nexus_cli.core.errors import NexusError
from nexus_cli.core.front_ends import CHAT
from nexus_cli.core.goals import list_goals
from nexus_cli.core.json_value import JsonDict, JsonObject
from nexus_cli.core.limits import UNASKED
from nexus_cli.core.memo_kinds import ATTACHMENTS, TRIGGER
from nexus_cli.core.services import Footprint, SeenFile
from nexus_cli.core.tool import Effect
from nexus_cli.engine.calls.dispatch import Dispatcher
from nexus_cli.engine.requests.control import Control
from nexus_cli.guides.skills import GuideKind, Skill, find_guides, index_guides, mark_denied, may_have_skills
from nexus_cli.sections.capability_snapshot import snapshot
from nexus_cli.sections.collect import SectionCollector
from nexus_cli.sections.contributor import Sources, choose_contributors, discover
from nexus_cli.sections.find_recipe import find_agents
from nexus_cli.sections.recipe import Recipe
from nexus_cli.session.options import Options
from nexus_cli.session.session_facts import SessionFacts
from nexus_cli.tools.files import ToolError, read_real_file
from nexus_cli.tools.registry import find_tool

_CALL = re.compile(r"<(skill|command) name=.*?</\1>|\A/([\w:-]+)|(?<![\w$\\])\$([A-Za-z][\w:-]*)", re.DOTALL)
"""A call of a guide in a message, and the guide that was put behind the words."""
MAX_NAMED = 2
"""Most skills that are named for one message."""


@dataclass
class SkillCatalogue:
    """Reads the skills of a folder. The methods block and may be called in a thread."""

    cwd: Path
    about: Callable[[], str]
    """Returns the person's newest message."""
    find_denial: Callable[[str, str], str] = lambda kind, name: ""
    """Returns the deny rule for a kind and a whole name, "" for none."""

    def read(self) -> tuple[tuple[Skill, ...], int]:
        """Return the skills, and the number of inactive ones."""
        skills, inactive = find_guides(self.cwd, GuideKind.SKILL)
        return mark_denied(skills, self.find_denial), inactive

    def offered(self) -> list[JsonDict]:
        """Return name and description of the skills for the model."""
        return _describe(self.read()[0])

    def agents(self) -> list[JsonDict]:
        """Return name and description of the agents that the model may hand work to."""
        return _describe(mark_denied(find_agents(self.cwd).values(), self.find_denial))

    def matching(self) -> list[JsonDict]:
        """Return the current skills that fit the newest message, best first, without those that the message calls."""
        message = self.about()
        if not message or not may_have_skills(self.cwd):
            return []
        from nexus_cli.ledger.relevance import rank_relevant  # noqa: PLC0415  (only where there are skills)

        called = {match[2] or match[3] for match in _CALL.finditer(message)}
        skills = [skill for skill in self.offered() if skill["name"] not in called]
        texts = [f"{skill['name'].replace('-', ' ')} {skill['description']}" for skill in skills]
        return [skills[place] for place in rank_relevant(texts, _CALL.sub(" ", message))[:MAX_NAMED]]


def _describe(skills: tuple[Skill, ...]) -> list[JsonDict]:
    return [{"name": skill.name, "description": skill.description} for skill in skills if skill.is_offered]


def index_named(cwd: Path, kind: str) -> dict[str, Skill]:
    """Return the agents or skills (`kind`) that the model can name, by each of their names. Blocks; raises nothing."""
    offered = (skill for skill in find_guides(cwd, GuideKind.SKILL)[0] if skill.is_offered)
    return index_guides(find_agents(cwd).values() if kind == GuideKind.AGENT else offered)


def find_whole_name(cwd: Path, kind: str, name: str) -> str:
    """Return `PLUGIN:NAME` for the name of a plugin's agent or skill, other names as they are. Blocks."""
    guide = index_named(cwd, kind).get(name.strip())
    return guide.whole_name if guide else name


LARGEST = 16 * 1024 * 1024
"""Largest file in bytes that is compared by content; a larger one is compared by time."""
MOST = 64 * 1024 * 1024
"""Most bytes read for one check of all files."""
GIT_SECONDS = 1.5
"""Time limit of one run of git that looks at a repository."""
SUBJECTS = 3
TYPES = {"client": "client", "agent": "worker"}
"""Type of a trigger by its source, if it is not the front end."""
SKILL_TOOL = "skill"
"""The tool that reads guides."""
AGENT_TOOL = "agent"
"""The tool that starts workers."""


@dataclass
class SessionSources:
    """Reads data of one running session. The methods block and may be called in a thread."""

    context: ContextManager
    read_seen_files: Callable[[], Sequence[SeenFile]]
    """Returns the files that the session read or changed, newest first."""
    waiting: list[str]
    """Lines for the model that wait for the next request."""
    front: str = ""
    """The front end: the source of typed messages."""
    run_facts: Callable[[], JsonObject] | None = None
    """See `RunFacts.facts`; None in a plain session."""
    folder: Path = Path()
    """The working folder."""
    noted: Collection[str] | None = None
    """Real paths of files that this process notes for the session, as it does; None where nobody keeps them."""
    _looked: JsonDict = field(default_factory=lambda: {"head": "", "subjects": []})
    """The newest state of the repository; {} once git has not answered."""
    _comparisons: dict[tuple[str, str, int, int], str] = field(default_factory=dict)
    """Results of comparisons, by path, recorded digest, present ctime (ns) and size."""
    _footprints: dict[int, Footprint] = field(default_factory=dict)
    """Footprint of the present epoch, by its id."""
    _earlier: Collection[str] | None = None
    """Real paths of files that the session had seen when they were first asked for; None before that."""
    _attached: tuple[int, Collection[str]] = (-1, ())
    """The newest request, and the real paths of files that were attached to it and the ones before."""

    def files(self) -> Sequence[SeenFile]:
        """Return the session's files with their present state on disk; none if the ledger fails."""
        try:
            seen_files = self.read_seen_files()
        except NexusError:
            return ()
        remaining, looked = MOST, []
        for seen_file in seen_files:
            disk, moment, used = self._look_at(seen_file, remaining)
            remaining -= used
            looked.append(replace(seen_file, disk=disk, moment=moment))
        return looked

    def touched(self) -> Collection[str]:
        """Return the real paths of the files that the session read, edited or was given; none if the ledger fails.

        Asked before every request: the ledger is read once, and again for what a new message attaches.
        """
        conversation = self.context.conversation
        newest = max((item.entry for item in conversation.items if item.is_request), default=0)
        try:
            if self._earlier is None or self.noted is None:
                self._earlier = _real_paths(self.folder, (seen_file.path for seen_file in self.read_seen_files()))
            if self._attached[0] != newest:
                memos = conversation.memos(ATTACHMENTS)
                paths = (os.path.expanduser(str(file["path"])) for memo in memos for file in memo.value["files"])
                self._attached = newest, _real_paths(self.folder, paths)
        except NexusError:
            return ()
        return [*self._earlier, *(self.noted or ()), *self._attached[1]]

    def repository(self) -> JsonObject:
        """Return the state of the repository with the `subjects` of its newest commits, as `contributors/repository.py`
        has it; {} without one, or if git fails or takes too long, which ends the looks. The first look asks for both at
        the same time, later ones for the commits only if there is a new one."""
        if not self._looked or not repository_root(self.folder):
            return {}
        from nexus_cli.worktrees.repository_state import list_commits, look_at_repository  # noqa: PLC0415  (runs git)

        before = self._looked
        with ThreadPoolExecutor(1) as pool:
            read_subjects = partial(list_commits, self.folder, "HEAD", "%s", SUBJECTS, seconds=GIT_SECONDS)
            commits = None if before["subjects"] else pool.submit(read_subjects)
            state = look_at_repository(self.folder, seconds=GIT_SECONDS)
            if state:
                is_new = commits is None and before["head"] != state["head"]
                state["subjects"] = read_subjects() if is_new else commits.result() if commits else before["subjects"]
        self._looked = state  # only now: another thread may look at the same time
        return state

    def footprint(self) -> Footprint:
        """Count the turns and calls that the window no longer shows, unless a summary or a marker in it tells them."""
        conversation = self.context.conversation
        if any(item.replaces_others for item in conversation.items):
            return Footprint()
        epoch = conversation.epoch
        if epoch.id not in self._footprints:
            calls, turns = Counter[str](), 0
            for (kind, actor), count in self._count_hidden(conversation, epoch.base).items():
                if kind in (Kind.USER, Kind.STEER) and actor != "nexus":
                    turns += count
                elif kind is Kind.TOOL:
                    calls[actor.removeprefix("tool:")] += count
            self._footprints = {epoch.id: Footprint(turns, dict(calls.most_common()))}
        return self._footprints[epoch.id]

    def _count_hidden(self, conversation: Conversation, last: int) -> Mapping[tuple[Kind, str], int]:
        """Count the entries up to `last` that the window does not show, by kind and actor."""
        counts = Counter[tuple[Kind, str]]()
        for kind, actor, count in conversation.count_entries(last):
            counts[kind, actor] += count
        visible = (item.entry for item in self.context.conversation.items if item.shows_entry and item.entry <= last)
        for first, end in ranges_of(visible):
            counts.subtract((entry.kind, entry.actor) for entry in conversation.read(first, end))
        return +counts

    def trigger(self) -> Mapping[str, str]:
        """Return `type` and `source` of the newest turn's trigger; {} in a structured run, see `run`."""
        newest = self._newest_trigger()
        if self.run_facts or (newest is not None and newest.value.get("facts")):
            return {}
        source = "person" if newest is None else str(newest.value.get("source", ""))
        front = "repl" if self.front == CHAT else "ask"
        return {"type": TYPES.get(source, front if source in ("person", "stdin") else source), "source": source}

    def run(self) -> JsonObject:
        """Return the facts of a structured run: those of its newest trigger, and `run_facts`; {} in others."""
        newest = self._newest_trigger()
        if newest is None or not newest.value.get("facts"):
            return {}
        try:
            facts = self.run_facts() if self.run_facts else {}
        except NexusError:  # the trigger is known even if the ledger fails
            facts = {}
        return {**facts, "trigger": newest.value["facts"], "time": newest.at}

    def _newest_trigger(self) -> Memo | None:
        """Return the memo of the newest turn's trigger, None if the person typed it. In a structured run later messages
        are not triggers."""
        conversation = self.context.conversation
        memos = conversation.memos(TRIGGER)
        newest = memos[-1] if memos else None
        if newest is None or self.run_facts:
            return newest
        typed = any(item.entry > newest.entry and item.is_request for item in conversation.items)
        return None if typed else newest

    def _look_at(self, seen_file: SeenFile, remaining: int) -> tuple[str, str, int]:
        """Return the state of a file (`same`, `changed`, `gone`), the time of a change and the number of bytes read."""
        try:
            status = os.stat(seen_file.path)
        except (FileNotFoundError, NotADirectoryError):
            return "gone", "", 0
        except (OSError, ValueError):
            return "same", "", 0
        if not stat.S_ISREG(status.st_mode):
            return "gone", "", 0
        key = (seen_file.path, seen_file.digest, status.st_ctime_ns, status.st_size)
        used = 0
        if key not in self._comparisons:
            small = status.st_size <= min(LARGEST, remaining)
            used = status.st_size if small else 0
            self._comparisons[key] = _compare_file(seen_file, status.st_ctime, status.st_mtime, small)
        disk = self._comparisons[key]
        return disk, _format_moment(status.st_mtime) if disk == "changed" else "", used


def _real_paths(cwd: Path, paths: Iterable[str]) -> set[str]:
    """Return the real paths of files; the folder of several is resolved once."""
    resolve, real_paths = cache(os.path.realpath), set[str]()
    for path in (os.path.join(cwd, relative) for relative in paths):
        folder, name = os.path.split(path)
        is_plain = name.strip(".") and not os.path.islink(path)
        real_paths.add(os.path.join(resolve(folder), name) if is_plain else os.path.realpath(path))
    return real_paths


def _format_moment(timestamp: float) -> str:
    """Return a time of today as `14:35:12`, an earlier one with its date."""
    moment = datetime.fromtimestamp(timestamp)
    return moment.strftime("%H:%M:%S" if moment.date() == datetime.now().date() else "%Y-%m-%d %H:%M:%S")


def _compare_file(seen_file: SeenFile, touched: float, changed: float, small: bool) -> str:
    """Compare a file with its last use; return `same` or `changed`. A file with an older ctime is not read."""
    seen_at = datetime.fromisoformat(seen_file.at).timestamp()
    if touched <= seen_at:
        return "same"
    if not small:
        return "changed" if changed > seen_at else "same"
    try:
        return "same" if read_real_file(Path(seen_file.path), LARGEST).digest == seen_file.digest else "changed"
    except (OSError, ToolError):
        return "same"


def _is_news(options: Options, name: str, text: str) -> bool:
    """Return False if a person was told `text` in this project before. What saves nothing, and programs, are told."""
    if not options.save or options.served:
        return True
    from nexus_cli.config.unsupported import is_new_line  # noqa: PLC0415  (few projects have any)

    return is_new_line(f"{name}:{options.front}:{os.path.realpath(project_root(options.cwd))}", text)


def _read_instructions(options: Options) -> Mapping[str, str]:
    """Return the instructions of a session's MCP servers, by name."""
    if options.no_tools or not (options.servers or may_have_servers(options.cwd)):
        return {}
    from nexus_cli.mcp.server_tools import Catalogue  # noqa: PLC0415  (most folders have no servers)

    return Catalogue.read(options.cwd, options.servers).instructions()


def make_collector(
    options: Options,
    settings: Settings,
    recipe: Recipe,
    context: ContextManager,
    dispatcher: Dispatcher,
    control: Control,
    facts: SessionFacts,
    session: SessionSources,
    *,
    started: datetime,
    tools: Callable[[], Sequence[str]],
    **seams: Any,
) -> SectionCollector:
    """Build the section collector of the conversation of `context`; `control` shows its notices and drops, `tools`
    returns the names of the offered tools, and `seams` are further fields of `Sources`."""
    conversation, model, permission = context.conversation, context.model.info.name, dispatcher.permission
    is_run, reads_skills = session.run_facts is not None, SKILL_TOOL in tools()
    may_run = dispatcher.approver is not None or dispatcher.level in UNASKED or settings.sandbox.backend != "off"
    can_run = may_run and any(tool and tool.effect is Effect.RUN for tool in map(find_tool, tools()))
    catalogue = SkillCatalogue(options.cwd, conversation.newest_words, permission.find_denial)
    sources = Sources.of(
        options.cwd,
        started,
        clock=conversation.clock,
        mode=SERVER_MODE if options.served else "",
        is_run=is_run,
        is_worker=bool(options.spawner),
        style=settings.ui.style if options.interactive and not is_run else "",
        tools=tools,
        has_tool=lambda name: any(tool["function"]["name"] == name for tool in conversation.epoch.tools),
        agents=lambda: catalogue.agents() if AGENT_TOOL in tools() else (),
        server_instructions=lambda: _read_instructions(options),
        capabilities=lambda: snapshot(
            options.cwd, settings, model, tools(), skills=reads_skills, runs=can_run, find=catalogue.read
        ),
        skills=catalogue.offered if reads_skills else tuple,
        # A skill that comes later can be printed by a command.
        matching_skills=catalogue.matching if reads_skills or can_run else tuple,
        permission=dispatcher.section_facts,
        added=partial(getattr, permission, "added"),
        is_denied=permission.is_denied,
        find_denial=permission.find_denial,
        hooks=dispatcher.hooks.sections.copy if dispatcher.hooks else dict,
        about=conversation.newest_words,
        goals=lambda: list_goals(conversation),
        facts=facts,
        episodes=facts.episodes,
        files=session.files,
        footprint=session.footprint,
        touched=session.touched,
        trigger=session.trigger,
        run=session.run,
        notices=lambda: session.waiting,
        repository=session.repository,
        **seams,
    )
    return SectionCollector.of(
        context,
        choose_contributors(discover(), recipe.admits, is_run=is_run, system_prompt=options.system_prompt),
        sources,
        recipe,
        control.emit_notice,
        control.emit_drop,
        partial(_is_news, options),
        facts.misses if settings.sections.learn else dict,
    )
