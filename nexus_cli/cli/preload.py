"""Import at once, for the warm process, what a run of `nexus ask` imports and makes until its request is on the wire.

Nothing here may depend on a setting, a folder, or a variable that `nexus_cli.warm` does not compare.
"""

from __future__ import annotations

import gc
import pkgutil
from importlib import import_module
from typing import Any

from nexus_cli.cli import app
from nexus_cli.provider import model_table
from nexus_cli.provider.litellm_backend import litellm

MODULES = (
    "nexus_cli.cli.run_turn",
    "nexus_cli.session.outcome",
    "nexus_cli.ui.input.attached_files",
    "nexus_cli.config.misplaced_keys",
    "nexus_cli.config.project_settings",
    "tomllib",
    "charset_normalizer",
    "encodings.utf_8_sig",
    "platformdirs",
)
"""Modules of a run, the model library apart."""
FIRST_REQUEST = (
    "anyio._backends._asyncio",
    "httpcore",
    "litellm._service_logger",
    "litellm.llms.litellm_proxy.chat.transformation",
    "litellm.llms.openai_like.dynamic_config",
    "litellm.llms.vertex_ai.vertex_ai_partner_models.anthropic.transformation",
    "litellm.proxy.openai_files_endpoints.common_utils",
    "litellm.responses.mcp.chat_completions_handler",
    "openai.resources",
)
"""Modules that the model library imports with its first request: a fifth of a second. It may lack some of them in
another version."""
REGISTRIES = ("nexus_cli.tools.builtin", "nexus_cli.context.sections.contributors")


def import_run() -> None:
    """Import and make everything, with garbage collection off: what is made stays."""
    gc.disable()
    for name in MODULES:
        import_module(name)
    litellm()
    for package in REGISTRIES:
        for module in pkgutil.iter_modules(import_module(package).__path__, f"{package}."):
            import_module(module.name)
    for name in FIRST_REQUEST:
        _import_if_there(name)
    if distro := _import_if_there("distro"):
        distro.id()  # for a header of the model library; it keeps the answer
    model_table.keep_table()
    app.build(completion=False)
    app.load_command("ask")


def _import_if_there(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None
