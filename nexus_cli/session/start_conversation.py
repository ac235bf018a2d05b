"""Prepare a turn: start the main conversation before the first one of a process, record the trigger, and find what may
follow the replies.

The conversation begins its first epoch, or resumes from its last request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nexus_cli.config.foreign_items import may_have_servers
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.core.attachment import RESUME, Trigger
from nexus_cli.core.entry import SWITCH, Kind
from nexus_cli.core.errors import UsageError
from nexus_cli.core.event import TurnStart
from nexus_cli.core.goals import open_until
from nexus_cli.core.limits import BUDGET, PLAN
from nexus_cli.core.memo_kinds import JOB, RESULT, TRIGGER, WAIT, WORK_FOLDER, WORKER
from nexus_cli.core.message import Role
from nexus_cli.core.services import Jobs, RunFacts, ServerTools, Workers
from nexus_cli.core.typed_text import CONTINUE_MESSAGE
from nexus_cli.engine.compaction.context_fit import replan_sections
from nexus_cli.session.base_session import BaseSession
from nexus_cli.session.continuation import Continuation, StopHooks, WorkerReports
from nexus_cli.session.limits_record import notify_changed_limits
from nexus_cli.text.untrusted_text import remove_arrows

UNANSWERED = "the previous turn was stopped before your answer"
"""Notice for the model if nothing else in the window shows it: there was no text yet."""


async def start_conversation(session: BaseSession, words: str = "") -> None:
    """Read the MCP servers that are in effect now, and ask those whose tools are not known. The first time, begin the
    main conversation for a message, or resume it where an earlier process left it."""
    services, engine = session.services, session.engine
    if ServerTools in services and (
        services.get_existing(ServerTools) is not None or session.options.servers or may_have_servers(session.folder)
    ):
        await services[ServerTools].prepare()
    if engine.is_started:
        return
    if engine.conversation.is_recorded:
        await _resume(session)
    else:
        planned = await engine.prompt.draft_epoch(engine.context, words)
        engine.conversation.replace_header(planned.epoch)
        engine.conversation.begin(planned.drops, planned.notes)
        for drop in planned.drops:
            engine.control.emit_drop(drop)
    engine.is_started = True


def find_continuations(session: BaseSession, trigger: Trigger) -> list[Continuation]:
    """Return the continuations that may follow the replies of a turn, in their order: the schema binds the last answer.

    In a one-shot session a new message without `--until` is a question of its own; without a message the work resumes.
    In plan mode the command, which may not run, waits for the next turn outside of it.
    """
    continuations: list[Continuation] = [WorkerReports(session)]
    command = trigger.until
    if not command and session.dispatcher.level != PLAN and (session.has_more_turns or not trigger.has_message):
        command = open_until(session.conversation, session.id).get("command", "")
    if command:
        from nexus_cli.session.until_rounds import UntilRounds  # noqa: PLC0415  (few turns work for a command)

        continuations.append(UntilRounds(session, command, is_new=bool(trigger.until)))
    continuations.append(StopHooks(session))
    if trigger.schema:
        from nexus_cli.session.answer_rounds import AnswerRounds  # noqa: PLC0415  (few turns have a schema)

        continuations.append(AnswerRounds(session, trigger.schema))
    return continuations


async def record_trigger(session: BaseSession, trigger: Trigger, continuations: Sequence[Continuation]) -> None:
    """Start the conversation, answer calls that an earlier process left open, and record the text of a trigger with
    what its continuations tell the model; resume if it has none. Raises `UsageError` if nothing is to be
    done: there is no text, and the last reply is complete."""
    await start_conversation(session, trigger.text)
    engine, dispatcher, conversation = session.engine, session.dispatcher, session.conversation
    begun = TurnStart(trigger.text)
    for continuation in continuations:
        if addition := continuation.admit(has_message=trigger.has_message):
            text = f"{trigger.text}\n\n{addition}" if trigger.text else addition
            trigger = replace(trigger, text=text, pasted=(*trigger.pasted, addition))
    step, text = conversation.next_step(), trigger.text
    if not trigger.has_message:
        if step.is_done and not engine.control.steering:
            has_work = any(continuation.has_work for continuation in continuations)
            await _finish_reply(session, may_be_done=has_work)
        engine.control.emit(begun)
        return
    if step.calls:
        dispatcher.settle_open(engine.context, engine.control, step.calls)
    elif not step.is_done and trigger.source not in (RESUME, "space") and not _shows_end(conversation):
        engine.notices.tell(UNANSWERED)
    if trigger.fresh:
        from nexus_cli.session.resume_epoch import begin_resume_epoch  # noqa: PLC0415  (a run resumes after a wait)

        subjects = {tool.name: tool.subject for tool in dispatcher.registry.tools()}
        await begin_resume_epoch(engine, subjects, trigger.came)
    if trigger.facts and trigger.facts.get("type") != RESUME:
        from nexus_cli.core.run import TRIGGER_MARK  # noqa: PLC0415  (a structured run)

        if not text.endswith(TRIGGER_MARK):  # the only mark in it
            text = f"{remove_arrows(text)} {TRIGGER_MARK}"
    if trigger.source != "person":  # before its entry, so that a kill between the two loses nothing
        record = {"source": trigger.source, **({"facts": dict(trigger.facts)} if trigger.facts else {})}
        conversation.memo(TRIGGER, record, conversation.last + 1)
    await engine.record_user_message(Kind.USER, replace(trigger, text=text))
    engine.control.emit(begun)


def _shows_end(conversation: Conversation) -> bool:
    """Return True if the window shows why the last turn has no answer: who stopped it, or that its run waited."""
    newest = conversation.items[-1].entry
    if any(memo.value.get("stopped") for memo in conversation.memos(RESULT) if memo.entry == newest):
        return True
    waits = conversation.memos(WAIT)
    return bool(waits) and all(
        item.message.role is Role.TOOL for item in conversation.items if item.entry >= waits[-1].entry
    )


async def _finish_reply(session: BaseSession, *, may_be_done: bool) -> None:
    """Let the model go on with a reply that broke off; raise `UsageError` if it is complete, unless it
    `may_be_done`."""
    engine = session.engine
    if engine.conversation.log.ends_unfinished():
        await engine.record_user_message(Kind.STEER, Trigger(CONTINUE_MESSAGE, actor="nexus"))
    elif not may_be_done:
        is_new = not engine.conversation.items
        why = "the text is empty" if is_new else "the last answer of this session is complete"
        raise UsageError("no prompt", why, "Add a prompt")


async def expand_trigger(session: BaseSession, trigger: Trigger) -> Trigger:
    """Return a trigger that `may_expand` with what its typed words name: guides, and resources and prompts of MCP
    servers."""
    if trigger.expands:
        from nexus_cli.session.skill_guides import expand_guides  # noqa: PLC0415  (few messages call one)

        trigger = await expand_guides(session, trigger)
    servers = session.services.get_existing(ServerTools)
    return await servers.attach(trigger) if servers else trigger


async def _resume(session: BaseSession) -> None:
    if session.has_no_ledger:
        return
    engine, options, folder = session.engine, session.options, session.opening.last_folder
    conversation = engine.conversation
    engine.prompt.resume(engine.conversation)
    session.load_cache_history()
    if (conversation.epoch.model, conversation.epoch.effort) != (engine.model.info.name, engine.model.effort):
        engine.readings.epoch_cause = SWITCH
        if (before := conversation.epoch.model) != (now := engine.model.info.name):
            engine.notices.tell(f"the model is now {now}: earlier replies are those of {before}")
    elif not conversation.renders_as_sent():
        engine.readings.epoch_cause = "reload"
        line = "another version of nexus wrote this session; its next request misses the cache"
        engine.control.emit_notice(line, warning=False)
    await replan_sections(engine)
    if folder != str(options.cwd):
        engine.notices.keep("folder", f"the working folder is now {options.cwd}, no longer {folder}")
        conversation.memo(WORK_FOLDER, {"folder": str(options.cwd)})
    ignored_names = (
        {"max_cost"} if RunFacts in session.services else set[str]()
    )  # the cap of a run shrinks with its cost
    ignored_names.update(BUDGET if options.spawner else ())  # a worker is told its new budget
    notify_changed_limits(session, ignored_names)
    if conversation.memos(WORKER):
        session.services.find(Workers)  # reports workers whose result was not read
    if conversation.memos(JOB):
        session.services.find(Jobs)  # reports jobs that ended with the session
