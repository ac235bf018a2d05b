"""A conversation that plans the request of its window before it freezes it, as a session does."""

from __future__ import annotations

from nexus_cli.conversation import conversation
from nexus_cli.conversation.conversation import FrozenRequest
from nexus_cli.conversation.render import Wire
from nexus_cli.conversation.request_plan import RequestPlan, project
from nexus_cli.conversation.tokens.estimate import Estimate
from nexus_cli.core.budget import TokenBudget


class Conversation(conversation.Conversation):
    """Checks that each request holds what its plan shows and nothing else."""

    def plan(self) -> RequestPlan:
        """The request of the present window."""
        return project(self.epoch, self.counts(), Estimate.of(), TokenBudget(8_000, 1_000, 0))

    def freeze_request(self, plan: RequestPlan | None = None) -> FrozenRequest:
        """Freeze `plan`, by default that of the present window."""
        plan, arranged = plan or self.plan(), self.arranged
        sealed, alone = super().freeze_request(plan), Wire(plan.epoch)
        alone.extend(arranged)
        assert (sealed.wire.messages, sealed.wire.sha256) == (alone.messages, alone.sha256)
        return sealed
