"""What a run of `nexus ask` imports until its request is on the wire, imported at once: for the warm process."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from nexus_cli.cli import process
from nexus_cli.provider.litellm_backend import litellm

MODULES = (
    "nexus_cli.cli.app",
    "nexus_cli.cli.ask",
    "nexus_cli.cli.run_turn",
    "nexus_cli.ui.input.attached_files",
    "nexus_cli.config.misplaced_keys",
    "nexus_cli.config.project_settings",
    "tomllib",
    "charset_normalizer",
    "platformdirs",
)
"""Modules of a run, the model library apart."""
FIRST_REQUEST = (
    "anyio._backends._asyncio",
    "httpcore",
    "litellm._service_logger",
    "litellm.responses.mcp.chat_completions_handler",
    "openai.resources",
)
"""Modules that the model library imports with its first request: a fifth of a second."""
REGISTRIES = ("nexus_cli.tools.builtin", "nexus_cli.context.sections.contributors")


def import_run() -> None:
    """Import everything, with garbage collection off: what is made stays."""
    process.disable_gc()
    for name in MODULES:
        import_module(name)
    litellm()
    for package in REGISTRIES:
        for module in pkgutil.iter_modules(import_module(package).__path__, f"{package}."):
            import_module(module.name)
    for name in FIRST_REQUEST:
        import_module(name)
