"""What a compaction must not lose, found without a model, and the verdict on a summary.

Owns: commitments, how they are found, when one counts as retained, what a summary says that is not so, and the lines
that bring back what is lost and put right what is wrong. Leaves to others: asking for a summary, refusing or accepting
it (`session/`), what stays of a window (`context/plan`).
"""

from nexus_cli.context.fidelity.commitment import MUSTS, Commitment, CommitmentKind
from nexus_cli.context.fidelity.extract import commitments, of_message
from nexus_cli.context.fidelity.verdict import Verdict, added_room, judge

__all__ = ["MUSTS", "Commitment", "CommitmentKind", "Verdict", "added_room", "commitments", "judge", "of_message"]
