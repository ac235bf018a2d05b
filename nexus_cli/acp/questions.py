"""Ask the person in the editor: for permission, with the command or the diff in the question, for the model, and which
item of a list a command is for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Literal

from acp import Client, schema
from acp.exceptions import RequestError

from nexus_cli.acp.updates import UpdateStream, call_title, fence_text, kind_of, text_block
from nexus_cli.commands.command import Choice
from nexus_cli.core.approval import Allow, Answer, Deny, PersonQuestion, Question
from nexus_cli.core.tool import Tool
from nexus_cli.rpc.client_approver import ClientApprover
from nexus_cli.text.hidden_signs import mark_hidden_signs
from nexus_cli.text.terminal_sanitizer import sanitize

ONCE, SESSION, ALWAYS, NO = "once", "session", "always", "no"
NO_REPLY = "the editor did not answer"
MAX_OPTIONS = 12
"""Most items of a list that are options of one question."""


class EditorApprover(ClientApprover):
    """An `Approver` whose person is in an editor. The model's questions need an editor that shows forms."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self.session_id = ""
        """The session of the questions; set once it is open."""
        self.stream: UpdateStream
        """That of the session."""

    async def ask(self, question: Question) -> Answer:
        """Return the person's answer; a declined call ends the turn, so that the person can say what to do instead."""
        reasons = {"why": question.why, "rule": question.rule, "profile": question.profile}
        match await self._pick_option(self._describe(question), _options(question), nexus=reasons):
            case "":
                return Deny(NO_REPLY, said=False)
            case "once":
                return Allow()
            case "session":
                return Allow(always=True)
            case "always":
                return Allow(always=True, stored=bool(question.stores))
            case _:
                return Deny(stops=True, by="client")

    async def _pick_option(
        self, call: schema.ToolCallUpdate, options: list[schema.PermissionOption], **meta: Any
    ) -> str:
        """Return the id of the option that the person picks; "" without an answer."""
        try:
            answer = await self._client.request_permission(self.session_id, call, options, **meta)
        except (RequestError, ConnectionError):
            return ""
        return answer.outcome.option_id if isinstance(answer.outcome, schema.AllowedOutcome) else ""

    async def choose(self, call: schema.ToolCallUpdate, choices: Sequence[Choice]) -> str | None:
        """Return the key of the choice that the person picks, None without one; the question is shown as `call`."""
        offered = choices[:MAX_OPTIONS]
        keys = {choice.key or NO: choice.key for choice in offered}
        options = [
            _option(choice.key or NO, sanitize(f"{choice.label}  {choice.detail}".rstrip())) for choice in offered
        ]
        if hidden_count := len(choices) - len(offered):
            call.title = f"{call.title} {hidden_count} more: type the item's name after the command"
        picked = await self._pick_option(call, options if NO in keys else [*options, _option(NO, "Cancel")])
        return keys.get(picked)

    def _describe(self, question: Question) -> schema.ToolCallUpdate:
        """Return the call of a question: its title is the command or the path, its content the whole command or the
        diff."""
        tool = self.stream.registry.get(question.call.name)
        diffs = self.stream.diffs(question.call)
        reasons = [question.why, *question.doubts, question.rule]
        explanation = "\n".join(reason for reason in dict.fromkeys(reasons) if reason)
        detail = [fence_text(mark_hidden_signs(question.detail))] if question.detail and not diffs else []
        why = [schema.ContentToolCallContent(type="content", content=text_block(explanation))] if explanation else []
        return schema.ToolCallUpdate(
            tool_call_id=question.call.id,
            title=mark_hidden_signs(call_title(tool, question.call, _subject(tool, question))),
            kind=kind_of(tool),
            status="pending",
            content=[*diffs, *detail, *why],
            raw_input=dict(question.call.arguments),
        )

    async def put_questions(self, questions: Sequence[PersonQuestion]) -> list[str]:
        """See `QuestionAsker`: all questions in one form."""
        fields = {f"answer_{number}": _field(question) for number, question in enumerate(questions, 1)}
        form = schema.ElicitationSchema(type="object", properties=dict(fields), required=list(fields))
        mode = schema.ElicitationFormSessionMode(session_id=self.session_id, requested_schema=form)
        text = questions[0].text if len(questions) == 1 else "The agent has questions"
        try:
            answer = await self._client.create_elicitation(text, mode)
        except (RequestError, ConnectionError):
            return []
        values = getattr(answer, "content", None) or {}
        return [str(values[name]) for name in takewhile(values.__contains__, fields)]


def _field(question: PersonQuestion) -> schema.ElicitationStringPropertySchema:
    """Return the field of a question; its choices are proposals, and other words are as good."""
    choices = f"Choices: {', '.join(question.choices)}, or your own answer" if question.choices else None
    return schema.ElicitationStringPropertySchema(type="string", title=question.text, description=choices)


def _subject(tool: Tool | None, question: Question) -> str:
    """Return the command or the path of a call in full: what is allowed must be what is read."""
    subject = question.call.arguments.get(tool.subject) if tool is not None else None
    return subject if isinstance(subject, str) else question.what


def _options(question: Question) -> list[schema.PermissionOption]:
    scope = f" ({mark_hidden_signs(question.always)})" if question.always else ""
    offered = [_option(ONCE, "Allow once")]
    if question.always:
        offered.append(_option(SESSION, f"Allow for this session{scope}", "allow_always"))
    if question.stores:
        offered.append(_option(ALWAYS, f"Always allow{scope}", "allow_always"))
    return [*offered, _option(NO, "Reject")]


def _option(key: str, name: str, kind: Literal["allow_once", "allow_always"] = "allow_once") -> schema.PermissionOption:
    return schema.PermissionOption(option_id=key, name=name, kind="reject_once" if key == NO else kind)
