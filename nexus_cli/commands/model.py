"""`/model`: another model, or the ones that there are."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any

from nexus_cli.commands.arguments import describe_cache_miss, resume_options, usage_error
from nexus_cli.commands.command import Choice, Command, CommandContext
from nexus_cli.core.errors import NexusError
from nexus_cli.core.message import replace_surrogates
from nexus_cli.provider.endpoint import resolve_endpoint
from nexus_cli.provider.model_table import check_model
from nexus_cli.session.reports import models as reports
from nexus_cli.session.usable import resolved


async def run(context: CommandContext, rest: str) -> None:
    """Go on with another model, or choose one.

    NAME is a litellm model name or an alias of the settings; without it choose among those usable now. The session
    stays. A provider's cache holds for each model only what this one was sent: how much of the next request is sent
    anew is said.
    """
    name = resolved(replace_surrogates(rest), context.settings) if rest else await _chosen(context)
    if not name:
        return
    try:
        check_model(name)
        resolve_endpoint(name, os.environ)
    except NexusError as error:
        raise usage_error("model", name, f"it cannot be asked: {error.why[:200]}", error.hint) from None
    if name == context.session.model:
        context.say(f"{name} is the model already.")
        return
    await context.reopen(resume_options(context, model=name))
    context.say(f"model {context.session.model}. {await describe_cache_miss(context)}".rstrip())


async def _chosen(context: CommandContext) -> str | None:
    listed = await asyncio.to_thread(reports.listing, context.settings, os.environ)
    present = context.session.model
    choices = [Choice(row["name"], _label(row, present)) for row in listed["models"]]
    if not choices:
        context.show("models", listed)
        return None
    return await context.choose(f"The model is {present}. Usable now ($ per million tokens):", choices)


def _label(row: Mapping[str, Any], present: str) -> str:
    """One line: name, window, prices, cache, why it is usable."""
    window = f"{row['window']:,}" if row["known"] or row["window_told"] else f"{row['window']:,}?"
    price = " / ".join("?" if row[key] is None else f"${row[key]:g}" for key in ("input_price", "output_price"))
    cache = "cache" if row["cache"] else "no cache"
    mark = ", the present one" if row["name"] == present else ""
    return f"{row['name']}  {window}  {price}  {cache}  ({', '.join(row['because'])}{mark})"


def _names(context: CommandContext) -> Sequence[str]:
    return reports.quick_names(context.settings, os.environ)


COMMAND = Command("model", "model", run, "[NAME]", idle=True, complete=_names)
