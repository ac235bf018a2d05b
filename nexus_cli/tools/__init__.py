"""What the model can do: the registry of tools, the check of their arguments, permission, and the cap of their output.

Running a call (limits, approval, recording) is the session's; what a tool is, is said in `nexus_cli.core.tool`.
"""

from nexus_cli.tools.permission import Ask, Granted, Verdict, decide
from nexus_cli.tools.registry import ToolRegistry, discover
from nexus_cli.tools.schema import check, validate

__all__ = [
    "Ask",
    "Granted",
    "ToolRegistry",
    "Verdict",
    "check",
    "decide",
    "discover",
    "validate",
]
