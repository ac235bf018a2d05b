"""Load the `ModelInfo` of a model, and describe a window that nobody states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nexus_cli.config.settings import Settings
from nexus_cli.core.entry import Memo
from nexus_cli.core.memo_kinds import REFUSED_WINDOW
from nexus_cli.core.request import ModelInfo
from nexus_cli.core.services import Log
from nexus_cli.core.shared_types import TakeText
from nexus_cli.provider.model_table import describe_unknown_window
from nexus_cli.provider.served_models import served_model_info


def load_model_info(
    name: str,
    settings: Settings,
    log: Log | None = None,
    *,
    waits: bool = False,
    saves: bool = True,
    tell: TakeText | None = None,
) -> ModelInfo:
    """Return the info of a model at the address set in the environment, as `served_model_info` does with `waits` and
    `saves`. `tell` gets a notice about a window that nobody states, once a day.

    A window recorded in the session of `log` applies.
    """
    info = served_model_info(name, settings.models, waits=waits, saves=saves)
    info = _with_session_window(info, log.memos(REFUSED_WINDOW)) if log is not None else info
    if tell is not None and not (info.known or info.window_refused or info.pending):
        from nexus_cli.config.daily_notice import is_first_today  # noqa: PLC0415  (few models are unknown)

        if is_first_today(f"window of {info.served_name}", notes=saves):
            tell(describe_unknown_window(info, info.window))
    return info


def _with_session_window(info: ModelInfo, memos: Sequence[Memo]) -> ModelInfo:
    """Return `info` with the window recorded in the session's memos, if the listed window and its setting are still the
    same."""
    listed = info.listed_window or info.window
    windows = [memo.value for memo in memos if memo.value["model"] == info.served_name]
    if not windows or windows[-1]["listed"] != listed or not 0 < windows[-1]["window"] < info.window:
        return info
    if windows[-1].get("key", info.window_key) != info.window_key:  # an older record has none
        return info
    return replace(info, window=int(windows[-1]["window"]), window_refused=True, listed_window=listed)
