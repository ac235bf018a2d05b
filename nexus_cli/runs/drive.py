"""Drive one run: open its session, begin or resume it, and record its outcome.

Every record is made under the claim of the run (`RunTable.hold`): a process that lost it records nothing more and
starts no tool. After a kill at any point the next process reads the state from the ledger:

| killed | what the next one finds | what it does |
|---|---|---|
| before the session was made | no session | makes one and begins |
| while history was loaded | no memo `run` | begins: `RunHooks.begin` finds its own records |
| after the trigger was recorded | open work | resumes |
| after a tool was started | a call without result | its outcome is unknown, it is not run again |
| after the wait was recorded | the run waits | nothing, until the event comes |
| before the signal was taken | the signal, untaken | resumes |
| before the end was recorded | no open work | records the end |
| before events that joined were told | events after the newest told one (memo `joined`) | tells of them |
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from nexus_cli.config.crash_report import report_bug
from nexus_cli.config.paths import project_root
from nexus_cli.config.settings import Settings
from nexus_cli.config.worktree_record import find_source
from nexus_cli.core.approval import Approver
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.clock import utc_now
from nexus_cli.core.duration import format_duration
from nexus_cli.core.entry import Kind
from nexus_cli.core.errors import WAITING, NexusError, UsageError
from nexus_cli.core.event import Event, Outcome, StepEnd, TurnEnd
from nexus_cli.core.front_ends import RUN
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.limits import ASK, BUDGET, LEVELS, PLAN, Limits, describe_budget
from nexus_cli.core.memo_kinds import CLAIMED_RUN, DECISION
from nexus_cli.core.request import Provider
from nexus_cli.core.run import (
    APPROVAL,
    DEBOUNCE,
    DONE,
    FAILED,
    JOINED,
    KEY,
    PERSON,
    PLAIN,
    PROVIDER,
    REFUSED,
    UNATTENDED,
    Run,
    Signal,
    Wait,
)
from nexus_cli.core.services import RunFacts, Spaces
from nexus_cli.ledger import Ledger
from nexus_cli.provider.model_table import model_info
from nexus_cli.runs.resume_trigger import claim_signals, resume_trigger
from nexus_cli.runs.run_approvals import RunApprover, answers_of
from nexus_cli.runs.run_kind import RunHooks
from nexus_cli.runs.run_summary import begin_record, describe_end, find_commits_of_others
from nexus_cli.runs.service_triggers import name_joined
from nexus_cli.runs.unattended import NEEDS, UNSPENT, UnattendedRules, trust_options
from nexus_cli.service_list import SERVICES, SPACES
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.service_makers import ServiceMaker, ServiceMakers
from nexus_cli.session.session import Session
from nexus_cli.spaces.run_facts import LedgerRunFacts
from nexus_cli.spaces.space_service import run_spaces
from nexus_cli.workers.prepare_worktree import enter_prepared
from nexus_cli.worktrees.worktrees import WorktreeStay

LEASE = 60.0
"""Seconds after which a claim expires that its owner does not renew."""
MIN_COST = 1e-9
"""Dollars that are left to a run that has spent all: the limit then refuses its next request."""
RENEWED = 20.0
"""Seconds between two renewals of the claim, however long a request takes."""
MAX_REFUSED = 20
"""Refused calls that a report names."""
PAUSES = (60.0, 120.0, 300.0, 900.0, 1800.0, 3600.0)
"""Least seconds before each attempt to reach a provider that is away; the last ones for all further attempts."""
RESUMED = "A person resumed this run after it had failed"
"""Begins the message to a run that had said its last word."""
UNASKED = ("plan", "service")
"""Types of runs that end without a person, unless their options have `ask`."""


@dataclass
class RunDriver:
    """Drives one claimed run over its own connection."""

    ledger: Ledger
    run: Run
    hooks: RunHooks
    settings: Callable[[Path], Settings]
    provider: Callable[[Settings], Provider]
    choose_model: Callable[[str, Settings], str]
    """Returns the model for a name or an alias, for "" the person's own; raises `NexusError`."""
    show: Callable[[Run, Event], None]
    person: Approver | None
    session: Session | None = None
    was_cut: bool = False
    """True if a limit stopped the run."""
    stay: WorktreeStay | None = None
    """Its worktree, if it works in one of its own."""
    until: JsonObject | None = None
    """The state of its work for a command, after its turn."""
    is_short: bool = False
    """True if what is left for the person's message that led to the run is the least of its limits in dollars."""
    is_stopping: bool = False
    """True once this process is ending: the next process continues the run."""
    last_told: int = 0
    """Key of the newest event that joined the run and that its model was told of, or is about to be."""

    async def drive(self) -> None:
        """Drive the run as far as it goes. Raises `NexusError("ledger", ...)` if its state cannot be recorded."""
        self.ledger.runs.hold(self.run, LEASE)
        beat = asyncio.create_task(self._renew())
        try:
            await self._drive()
        except NexusError as error:
            if error.kind == "ledger":
                raise
            await self._finish(FAILED, error=error.sentences.removesuffix("."))
        except Exception as bug:  # else the run would be claimed again for ever
            await self._finish(FAILED, error=report_bug(bug).message)
        finally:
            beat.cancel()
            if self.session is not None:
                await self.session.aclose()
            if self.stay is not None:
                await asyncio.to_thread(self._leave_worktree, self.stay)

    def _enter(self) -> WorktreeStay:
        """Enter the worktree of the run; raise `NexusError` if there can be none."""
        return enter_prepared(find_source(project_root(self._folder)), self.run.worktree)

    def _leave_worktree(self, stay: WorktreeStay) -> None:
        """End the stay in the worktree, which is removed if the run has ended and left nothing in it."""
        with suppress(NexusError):
            stay.leave() if self.ledger.runs.get(self.run.key).has_ended else stay.end()

    @property
    def _folder(self) -> Path:
        """The folder of the project."""
        folder = Path(self.run.options.get("folder") or os.path.expanduser("~"))
        if not folder.is_dir():
            why = "the folder does not exist"
            raise UsageError(f"folder {folder}", why, "Restore the folder, or start the work in another folder")
        return folder

    def end_after_step(self) -> None:
        """Let the turn finish its step and begin no other, because this process is ending."""
        self.is_stopping = True
        if self.session is not None:
            self.session.end_after_step()

    def stop(self) -> None:
        """Stop at once: the claim was lost, or this process is ending."""
        self.is_stopping = True
        if self.session is not None:
            self.session.cancel("end")

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEWED)
            with suppress(NexusError):
                await asyncio.to_thread(self.ledger.runs.renew)
                continue
            if self.ledger.runs.lost({self.run.key: self.run.fence}):
                self.stop()
                return

    async def _drive(self) -> None:
        approver = RunApprover(answers_of(self.ledger.runs.answers(self.run.key)), self.person)
        if self.run.worktree:
            self.stay = await asyncio.to_thread(self._enter)
        session = self.session = self._open(approver if self._can_ask(approver) else None)
        if self.run.type not in PLAIN and "began" not in self.run.options:
            self.run = self.ledger.runs.note(self.run, {"began": await asyncio.to_thread(begin_record, session)})
        trigger = await self._next_trigger(session)
        if trigger is not None and trigger.text:
            trigger = replace(trigger, until=str(self.run.options.get("until") or ""))
        if self.is_stopping:
            return
        if trigger is None:
            await self._finish(DONE, report=_last_words(session), cost=session.costs()[0])
            return
        outcome = await self._turn(session, trigger)
        self.until = outcome.until
        error = outcome.error
        if error is not None and error["kind"] == WAITING:
            return
        if (wait := approver.make_wait()) is not None and error is not None:
            self.ledger.runs.wait(self.run, wait, utc_now())
        elif error is not None and (error["kind"] == "ledger" or self.is_stopping):
            if error["kind"] == "ledger":
                raise NexusError("ledger", self.run.id, error["message"], error["hint"])
            self.ledger.runs.release_claim(self.run, utc_now())
        elif (away := self._provider_wait(outcome)) is not None:
            self.ledger.runs.wait(self.run, away, utc_now())
        elif error is not None and error["kind"] == "limit" and (needs := self._held_over()):
            self.ledger.runs.release_claim(self.run, utc_now(), {NEEDS: needs})
        else:
            # A budget of one request always ends with the work. Read before the hook, which makes requests too.
            ending = session.engine.spending.ending if self.run.options.get("max_steps") != 1 else ""
            self.was_cut = bool(ending) or (error is not None and error["kind"] == "limit")
            has_more = KEY in self.run.options and (session.is_open() or self._find_unsent_events(session))
            if has_more and error is None and not self.was_cut:
                # One request tells of all events that come together.
                await asyncio.sleep(min(self.run.options[DEBOUNCE], RENEWED))
                self.ledger.runs.release_claim(self.run, utc_now())
                return
            await self.hooks.end(session, self.run, outcome)
            problem = f"{error['message'].rstrip('.')}. {error['hint']}".rstrip(". ") if error is not None else ""
            if outcome.retry_after is not None and (attempts := self._earlier_attempts(outcome)):
                seconds = format_duration(self.ledger.runs.now() - attempts["since"])
                problem = f"the provider was unavailable for {seconds} (limit: setting runs.wait_provider): {problem}"
            if self.was_cut:
                problem = f"the run reached a limit: {error['message'] if error is not None else f'limits.{ending}'}"
            if self.is_short and "max_cost" in (ending or problem):
                self.ledger.spaces.record_spent(self.run.message or 0)
            state = FAILED if problem else DONE
            await self._finish(
                state, report=_report(_with_earlier(session, outcome)), error=problem, cost=session.costs()[0]
            )

    def _provider_wait(self, outcome: Outcome) -> Wait | None:
        """Return the wait for a provider that is away; None if it is not, or was for all the time that the settings
        give it."""
        if outcome.retry_after is None or outcome.error is None:
            return None
        present = self.ledger.runs.now()
        value = self._earlier_attempts(outcome) or {"since": present, "tries": 0}
        end = value["since"] + self._rules.settings.wait_provider
        if present >= end:
            return None
        pause = max(outcome.retry_after, PAUSES[min(value["tries"], len(PAUSES) - 1)])
        error, usage = outcome.error["message"], self.ledger.runs.count_usage(self.run.session)["usage"]
        if outcome.error["kind"] == "network" and not usage["input"]:
            error = f"{error.rstrip('.')}; the provider never responded to this run: check its address"
        value = {**value, "tries": value["tries"] + 1, "error": error}
        return Wait(PROVIDER, PROVIDER, value, min(present + pause, end))

    def _earlier_attempts(self, outcome: Outcome) -> JsonObject:
        """Return `since` and `tries` of the attempts to reach the provider before this turn; {} if there were none."""
        earlier = self.run.waits
        goes_on = earlier is not None and earlier.kind == PROVIDER and not outcome.usage.input
        return earlier.value if earlier is not None and goes_on else {}

    def _held_over(self) -> float:
        """Return the dollars for which the run should wait for another day, because what is left of this one was too
        little for its first request; 0.0 if it should not."""
        if self.session is None or self.run.type not in UNATTENDED or self.ledger.log(self.session.id).step():
            return 0.0
        return self._rules.needs_more(self.run, self._unspent)

    def _can_ask(self, approver: RunApprover) -> bool:
        """Return False for the runs that must end without a person: those of plans and services without `ask`."""
        if self.run.type not in UNASKED or self.run.options.get("ask"):
            return True
        return approver.person is not None or bool(approver.answers)

    async def _turn(self, session: Session, trigger: Trigger) -> Outcome:
        ended: Outcome | None = None
        self._send_joined_events(session)
        async with aclosing(session.run(trigger)) as events:
            async for event in events:
                self.show(self.run, event)
                if isinstance(event, StepEnd):
                    self._send_joined_events(session)
                if isinstance(event, TurnEnd):
                    ended = event.outcome
        assert ended is not None, "a turn always ends with its outcome"
        return ended

    def _send_joined_events(self, session: Session) -> None:
        """Tell the turn of the events that have joined the run since the last time, with the next request."""
        if events := [signal for signal in self._find_unsent_events(session) if signal.key > self.last_told]:
            self.last_told = events[-1].key
            session.tell(name_joined(events, self.run.title), JOINED, {"last": self.last_told})

    def _find_unsent_events(self, session: Session) -> list[Signal]:
        """Return the events that have joined the run and are not in its session."""
        return self.ledger.runs.joined(self.run.key, _last_sent_event(session)) if KEY in self.run.options else []

    async def _next_trigger(self, session: Session) -> Trigger | None:
        """Return the trigger of the run's next turn; None if the run has ended and only its end was not recorded."""
        run, runs = self.run, self.ledger.runs
        if not self._has_begun(session):
            trigger = await self.hooks.begin(session, run)
            session.engine.notices.tell(self._describe_budget(session), *(self.stay.notices if self.stay else ()))
            return claim_signals(trigger, run)
        signals = runs.signals(run.key)
        is_unfinished = session.is_open() or session.record.ends_unfinished()
        next_trigger = Trigger() if is_unfinished or self._find_unsent_events(session) else None
        resumed = [signal for signal in signals if signal.kind == PERSON] if run.waits is None else []
        if resumed or (run.waits is not None and run.waits.kind != "process"):  # a job of its own may commit meanwhile
            await self._record_foreign_commits(session)
        if resumed:
            text = f"{RESUMED} ({resumed[-1].value['why']}). Continue from here."
            session.engine.notices.tell(self._describe_budget(session), text if next_trigger else "")
            if next_trigger is None:
                return claim_signals(Trigger(text, "resume", actor="nexus"), run, resumed)
        if run.waits is None or not signals or run.waits.kind in (APPROVAL, PROVIDER):
            runs.take(run, signals if run.waits else resumed, utc_now())
            return next_trigger
        return claim_signals(await resume_trigger(session, run, signals), run, signals)

    async def _record_foreign_commits(self, session: Session) -> None:
        """Record what others committed while the run rested, so that its report leaves that out, and tell the model."""
        if commits := await asyncio.to_thread(find_commits_of_others, session, self.run):
            began = self.run.options["began"]
            other_commits = [*began.get("others", ()), *commits]
            self.run = self.ledger.runs.note(self.run, {"began": {**began, "others": other_commits}})
            hashes = ", ".join(line.partition(" ")[0] for line in commits)
            session.engine.notices.keep("", f"Committed by others while you waited: {hashes}.")

    def _describe_budget(self, session: Session) -> str:
        return describe_budget(session.dispatcher.limits) if self.run.type in UNASKED else ""

    def _has_begun(self, session: Session) -> bool:
        if self.run.waits is not None or self.run.resumes or self.run.type in PLAIN:
            return True
        return any(memo.value["run"] == self.run.key for memo in session.record.memos(CLAIMED_RUN))

    def _open(self, approver: Approver | None) -> Session:
        self.run = replace(self.run, options=trust_options(self.ledger, self.run))
        folder = self._folder
        settings = self.settings(folder)
        self._rules = UnattendedRules(settings.runs)
        run_options = self._rules.bind_options(self.ledger, self.run)
        self._unspent = float(run_options.get(UNSPENT) or 0.0)
        model = self.choose_model(str(run_options.get("model") or ""), settings)
        provider = self.provider(settings)
        if self.stay is not None:
            folder = self.stay.place_of(folder, project_root(folder))
        session_id = self._session(folder, model)
        limits = self._limits(run_options, settings, model, session_id)
        options = Options(
            folder,
            model,
            effort=str(run_options.get("effort") or settings.effort),
            recipe=str(run_options.get("recipe") or ""),
            front=RUN,
            resume=session_id,
            allow=limits.allow,
            require_save=True,
            limits=replace(limits, allow=None),
            worktree=self.stay.record.name if self.stay else str(run_options.get("worktree") or ""),
            reports=self.run.type in UNASKED,
            answers=self.run.type not in PLAIN,
            rules=tuple(self.run.options.get("rules") or ()),
        )
        return open_session(
            options,
            settings,
            approver=approver,
            provider=provider,
            ledger=self.ledger,
            services=self._services(),
        )

    def _services(self) -> ServiceMakers:
        """Return the services of the session, with those for its run and for the agent that the run belongs to."""
        ledger, run, entity = self.ledger, self.run, self.run.entity
        facts = ServiceMaker(RunFacts, lambda session: LedgerRunFacts(ledger, run))
        spaces = () if entity is None else (ServiceMaker(Spaces, partial(run_spaces, entity=entity)),)
        return (*(maker for maker in SERVICES if maker is not SPACES), facts, *spaces)

    def _limits(self, run_options: JsonObject, settings: Settings, model: str, session: str) -> Limits:
        """Return the limits of the run. Its steps and dollars cover the whole run, however often it waits; after a
        failure those from where a person resumed it."""
        level, counted = run_options.get("allow"), run_options.get("counted") or {}
        limits = replace(Limits.from_json(run_options), allow=level if level in (PLAN, *LEVELS) else ASK)
        if limits.max_steps is not None:
            sent_requests = self.ledger.runs.count_usage(session)["steps"] - counted.get("requests", 0)
            limits = replace(limits, max_steps=max(1, limits.max_steps - sent_requests))
        if limits.max_cost is None:
            return limits
        has_cap = bool({"max_cost", "max_cost_day"} & self.run.options.keys())
        if not has_cap and model_info(model, settings.models).input_price is None:
            return replace(limits, max_cost=None)  # no cap was set, and none could be enforced
        spent = self.ledger.session(session).known_usd - counted.get("usd", 0.0)
        remaining = min(limits.max_cost - spent, run_options.get(UNSPENT, limits.max_cost))
        of_message = self._left_of_message(settings.spaces.max_cost)
        self.is_short = of_message < remaining
        return replace(limits, max_cost=max(MIN_COST, min(remaining, of_message)))

    def _left_of_message(self, most: float) -> float:
        """Return the dollars that are left of the `most` that the runs of one person's message may cost; infinite
        for a run without such a message."""
        message = self.ledger.spaces.message(self.run.message) if self.run.message else None
        return most - self.ledger.runs.count_caused(message.root or message.key)[1] if message else math.inf

    def _session(self, folder: Path, model: str) -> str:
        """Return the id of the run's session, created if there is none yet."""
        session = self.run.session
        with suppress(NexusError):  # it was deleted
            if session and (self.run.waits is not None or self.run.resumes or self.ledger.session(session)):
                return session
        recipe = str(self.run.options.get("recipe") or RUN)
        created = self.ledger.runs.make_session(
            self.run,
            folder=str(folder),
            project=self.ledger.project_of(folder),
            model=model,
            recipe=recipe,
            at=utc_now(),
        )
        self.run = replace(self.run, session=created)
        return created

    async def _finish(self, state: str, *, report: str = "", error: str = "", cost: float | None = None) -> None:
        if self.session is not None:
            record = await asyncio.to_thread(describe_end, self.session, self.run)
            self.run = self.ledger.runs.note(self.run, {"record": {**record, "until": self.until}})
        told = _last_sent_event(self.session) if self.session is not None and state == DONE else None
        if not self.ledger.runs.finish(
            self.run, state, utc_now(), report=report, error=error, cost=cost, last_signal=told
        ):
            self.ledger.runs.release_claim(self.run, utc_now())


def _last_sent_event(session: Session) -> int:
    """Return the key of the newest event of which a session tells, 0 for none."""
    return max((memo.value["last"] for memo in session.record.memos(JOINED)), default=0)


def _with_earlier(session: Session, outcome: Outcome) -> Outcome:
    """Add the calls that were refused before the run waited to those of its last turn."""
    denied = {(row["tool"], row["subject"]) for row in outcome.denied}
    decisions = [memo.value for memo in session.record.memos(DECISION)]
    earlier = [
        {"tool": str(refusal["tool"]), "subject": str(refusal["subject"]), "why": str(refusal["why"]), "by": "rules"}
        for refusal in decisions
        if not refusal["ran"] and refusal["decision"] != "allow" and refusal.get("answer") != "no"
        if str(refusal["from"]).removeprefix("limit ") not in BUDGET
    ]
    new = [row for row in earlier if (row["tool"], row["subject"]) not in denied]
    return replace(outcome, denied=(*new, *outcome.denied))


def _report(outcome: Outcome) -> str:
    """Return the last words of a run, then the calls that were refused by anything but a person's answer."""
    refused = [
        f"- {row['tool']} {row['subject']}: {row['why']}"
        for row in outcome.denied
        if row["by"] not in ("person", "budget")
    ]
    omitted = [f"- {len(refused) - MAX_REFUSED} more"] if len(refused) > MAX_REFUSED else []
    lines = [REFUSED, *refused[:MAX_REFUSED], *omitted] if refused else []
    return "\n\n".join(part for part in (outcome.text, "\n".join(lines)) if part)


def _last_words(session: Session) -> str:
    """Return the last reply of the model."""
    log = session.record
    last = log.read(log.last_id(), log.last_id()) if log.last_id() else []
    return last[0].message.content if last and last[0].kind is Kind.ASSISTANT else ""
