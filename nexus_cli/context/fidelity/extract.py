"""From messages to commitments, without a model: what each message holds, and the fold over a history.

The rules are in the files beside this one; here is only which of them apply to whom.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from nexus_cli.context.fidelity import changes, errors, outcomes, shell, stated, terminal
from nexus_cli.context.fidelity.commitment import Commitment, CommitmentKind
from nexus_cli.context.fidelity.fold import Fold
from nexus_cli.context.fidelity.identifiers import decided, identifiers, led_to
from nexus_cli.context.fidelity.keys import commitment
from nexus_cli.context.fidelity.prose import LONGEST, Sentence, parts
from nexus_cli.context.fidelity.speech import Found, of_assistant, of_person
from nexus_cli.core.elide import remove_markers
from nexus_cli.core.message import Message, Role, ToolCall
from nexus_cli.core.words import apart

Kind = CommitmentKind


def of_message(entry: int, message: Message, call: ToolCall | None = None) -> tuple[Commitment, ...]:
    """What one message holds; `call` is the call that a tool's result answers."""
    match message.role:
        case Role.USER:
            found = _person(entry, message.content)
        case Role.ASSISTANT:
            found = _assistant(entry, remove_markers(message.content))
        case Role.TOOL if call is not None:
            found = _result(entry, remove_markers(message.content), call)
        case _:
            found = iter(())
    return tuple(dict.fromkeys(found))


def _person(entry: int, content: str) -> Iterator[Commitment]:
    own, attached = apart(content)
    told, pasted = parts(remove_markers(own), quotes=True)
    pasted += [line for line in attached.splitlines() if len(line) <= LONGEST]
    spoken = list(of_person(told))
    sentences = [sentence for sentence in told if not sentence.quoted]
    yield from _spoken(entry, spoken)
    yield from _values(entry, Role.USER, sentences, spoken)
    commands, output = terminal.pasted(content)
    known = set(pasted)
    for ran in commands:
        yield commitment(Kind.COMMAND, ran.command, entry, exit=ran.exit)
    shown = "\n".join((*pasted, *(line for line in output if line not in known)))
    for line in errors.named(shown, " ".join(ran.command for ran in commands)):
        yield commitment(Kind.ERROR, line, entry)
    for sentence in sentences:
        for path, state in stated.of_statement(sentence.text, _lead(sentence), person=True):
            yield commitment(Kind.FILE, path, entry, state=state)
        for ran in outcomes.told(sentence.text):
            yield commitment(Kind.COMMAND, ran.command, entry, exit=ran.exit)
        for line in errors.quoted(sentence.text, sentence.lead):
            yield commitment(Kind.ERROR, line, entry)


def _assistant(entry: int, content: str) -> Iterator[Commitment]:
    sentences, _ = parts(content)
    yield from _spoken(entry, of_assistant(sentences))
    yield from _values(entry, Role.ASSISTANT, sentences)
    for sentence in sentences:
        if sentence.box != " ":
            for path, state in stated.of_statement(sentence.text, _lead(sentence)):
                yield commitment(Kind.FILE, path, entry, state=state)


def _lead(sentence: Sentence) -> str:
    """What stands over the list that a sentence is an item of; what is ticked off is done, whatever stands there."""
    return sentence.lead if sentence.item and sentence.box != "x" else ""


def _spoken(entry: int, found: Iterable[Found]) -> Iterator[Commitment]:
    for kind, text in found:
        yield commitment(kind, text, entry)


def _values(entry: int, role: Role, sentences: Sequence[Sentence], said: Sequence[Found] = ()) -> Iterator[Commitment]:
    about: dict[str, str] = {}
    rules = decided(sentences, said)
    for sentence in sentences:
        for value in identifiers(sentence.text, role.value, sentence.text in rules):
            about.setdefault(value, led_to(sentence.text, value))
    for value, words in about.items():
        yield commitment(Kind.IDENTIFIER, value, entry, about=words)


def _result(entry: int, content: str, call: ToolCall) -> Iterator[Commitment]:
    command = outcomes.command_of(call)
    status = outcomes.exit_of(content) if command else None
    refused = outcomes.tool_error(call, content) if status is None else ""
    if refused:
        yield commitment(Kind.ERROR, refused, entry)
        return
    if command:
        yield commitment(Kind.COMMAND, command, entry, exit=status)
        if status is not None:
            for path, state in shell.touched(command, content if status else None):
                yield commitment(Kind.FILE, path, entry, state=state)
    for path, state in changes.of_editor(call, content):
        yield commitment(Kind.FILE, path, entry, state=state, digest=_digest(call, state))
    for line in _errors(call, command, content):
        yield commitment(Kind.ERROR, line, entry)


def _errors(call: ToolCall, command: str, content: str) -> list[str]:
    if changes.usual(call.name):
        return []
    if call.name in outcomes.READERS:
        return errors.logged(content)
    if command and outcomes.exit_of(content) == 0:
        return errors.logged(content)
    return errors.named(content, command)


def _digest(call: ToolCall, state: str) -> str:
    """SHA-256 of a file that was written whole and new; of another the result does not tell it."""
    written = call.arguments.get("content")
    if state != changes.CREATED or not isinstance(written, str):
        return ""
    return hashlib.sha256(written.encode("utf-8", "replace")).hexdigest()


def commitments(messages: Iterable[tuple[int, Message]]) -> tuple[Commitment, ...]:
    """The commitments of a history, given as (entry, message) in order, in the order of their entries.

    The last state of a path and the last status of a command line win; what is said twice counts once. An open question
    that the next words of the other side plainly answer is dropped, and a step of the plan that is ticked off later.
    """
    calls: dict[str, ToolCall] = {}
    fold = Fold()
    for entry, message in messages:
        calls.update((call.id, call) for call in message.tool_calls)
        call = calls.get(message.tool_call_id or "") if message.role is Role.TOOL else None
        fold.add(message, of_message(entry, message, call))
    return fold.found()
