"""The one text form of each report: a JSON value in, lines for people out, at a width in columns.

The values are made in `nexus_cli.session.reports`; texts are sanitized where they are printed. No form has colours, and
none is wider than asked from 20 columns on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from nexus_cli.ui.reports import compaction, context, memory, plan, sessions, status, transcript, usage
from nexus_cli.ui.reports.lines import Value

_MODULES = (compaction, context, memory, plan, sessions, status, transcript, usage)
FORMS: Mapping[str, Callable[[Value, int], str]] = MappingProxyType(
    {name.removesuffix("_text"): form for one in _MODULES for name, form in vars(one).items() if name.endswith("_text")}
)
"""Every form by the name under which a command shows it: that of its function, without `_text`."""
