"""The ledger: everything that ever happened, in one SQLite file. Knows plain values of `core` and nothing else."""

from nexus_cli.ledger.lane_log import LaneLog, TransactionLog
from nexus_cli.ledger.requests import InheritedRequests, RequestRow, pick_request
from nexus_cli.ledger.session_log import SessionLog
from nexus_cli.ledger.sessions import SessionInfo
from nexus_cli.ledger.store import Ledger

__all__ = [
    "SessionLog",
    "InheritedRequests",
    "LaneLog",
    "Ledger",
    "RequestRow",
    "SessionInfo",
    "TransactionLog",
    "pick_request",
]
