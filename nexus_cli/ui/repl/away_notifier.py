"""Notify a person who is away from the terminal that a question waits for them or a turn has ended."""

from __future__ import annotations

from nexus_cli.core import event as e
from nexus_cli.ui.render.event_texts import format_duration
from nexus_cli.ui.repl.view import ReplView


class AwayNotifier:
    """Notifies the person of some of a session's events."""

    def __init__(self, view: ReplView) -> None:
        self._view = view
        self._questions: set[tuple[str, str]] = set()
        """Open questions: worker ("" for the session itself) and call."""

    def feed(self, event: e.Event, folder: str, *, has_more: bool, worker: str = "") -> None:
        """Notify the person of `event` in the session of `folder` or its `worker`; `has_more`: another turn begins."""
        match event:
            case e.AgentEvent():
                self.feed(event.event, folder, has_more=has_more, worker=event.agent)
            case e.ApprovalRequest():
                self._questions.add((worker, event.question.call.id))
                what = f"{worker} {event.question.call.name}".lstrip()
                self._view.notify(f"{what} waits for your answer in {folder}", waits=True)
            case e.ApprovalAnswer():
                self._questions.discard((worker, event.call_id))
                if not self._questions:
                    self._view.notify("")
            case e.TurnEnd():
                self._questions = {one for one in self._questions if one[0] != worker}
                if not (has_more or worker):
                    how = "done" if event.outcome.ok else "stopped short"
                    self._view.notify(f"{how} after {format_duration(event.outcome.seconds)} in {folder}")
            case _:
                pass
