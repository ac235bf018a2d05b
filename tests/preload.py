"""Import everything that a run of `nexus ask` needs until its request is sent, for processes that fork."""

from __future__ import annotations

import gc
import pkgutil
from contextlib import suppress
from importlib import import_module

from nexus_cli.cli import app
from nexus_cli.provider.litellm_backend import litellm

MODULES = (
    "nexus_cli.cli.run.run_turn",
    "nexus_cli.session.outcome",
    "nexus_cli.ui.input.attached_files",
    "nexus_cli.config.project_settings",
    "tomllib",
    "charset_normalizer",
    "encodings.utf_8_sig",
    "platformdirs",
)
"""Modules of a run, except the model library."""
FIRST_REQUEST = (
    "anyio._backends._asyncio",
    "distro",
    "httpcore",
    "litellm._service_logger",
    "litellm.llms.litellm_proxy.chat.transformation",
    "litellm.llms.openai.chat.gpt_audio_transformation",
    "litellm.llms.openai_like.dynamic_config",
    "litellm.llms.vertex_ai.vertex_ai_partner_models.anthropic.transformation",
    "litellm.proxy.openai_files_endpoints.common_utils",
    "litellm.responses.mcp.chat_completions_handler",
    "openai.resources.chat.completions.completions",
)
"""Modules that the model library imports at its first request. Other versions may lack some of them."""
REGISTRIES = ("nexus_cli.tools.builtin", "nexus_cli.sections.contributors")


def import_run() -> None:
    """Import everything with garbage collection off, because these objects stay alive."""
    gc.disable()
    for name in MODULES:
        import_module(name)
    litellm()
    for package in REGISTRIES:
        for module in pkgutil.iter_modules(import_module(package).__path__, f"{package}."):
            import_module(module.name)
    for name in FIRST_REQUEST:
        with suppress(ImportError):
            import_module(name)
    app.build(completion=False)
    app.load_command("ask")
