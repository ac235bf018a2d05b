"""The environment and settings under which litellm is imported and called: offline, no output, no own retries.

The environment variables are set only while litellm reads them, and programs that start meanwhile do not inherit them.
`litellm_backend` imports and calls litellm.
"""

from __future__ import annotations

import logging
import platform
import warnings
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from nexus_cli.core.certificates import certificate_file
from nexus_cli.core.environ import changed_environ

SETTINGS = {
    "LITELLM_MODE": "PRODUCTION",  # else it loads the .env of the folder that holds the virtual environment
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOG": "ERROR",
}
SET_BY_LITELLM = ("TIKTOKEN_CACHE_DIR",)
"""Variables that litellm sets itself."""
CERTIFICATES = "SSL_CERT_FILE"
"""The variable from which litellm takes the file of trusted certificates, for contexts made at its import and later."""


def litellm_environment() -> AbstractContextManager[None]:
    """Return a context manager that sets the environment of litellm within its block."""
    trusted = certificate_file()
    return changed_environ(SETTINGS | ({CERTIFICATES: trusted} if trusted else {}), *SET_BY_LITELLM)


def keep_platform_from_starting_programs() -> None:
    """Fill the cache of `platform`, which libraries below litellm query: it would run `uname` from the PATH, and that
    may be a program of the project."""
    vars(platform.uname()).setdefault("processor", "")


def silence_litellm(module: Any) -> None:
    """Set up the module after its import, and suppress its and pydantic's writes to stderr."""
    warnings.filterwarnings("ignore", message="Pydantic serializer warnings", category=UserWarning)
    # A request that is cancelled as it begins leaves one of litellm's coroutines behind.
    warnings.filterwarnings("ignore", message="coroutine .* was never awaited", category=RuntimeWarning)
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    module.suppress_debug_info = True
    module.telemetry = False
    module.disable_hf_tokenizer_download = True  # else a stream of `groq/llama-3...` waits for one
    module.drop_params = False
    module.modify_params = False
    module.num_retries = 0
    module.disable_copilot_system_to_assistant = True  # else the system text would be sent as the assistant's
    module.utils.update_response_metadata = lambda **_: None  # else it prices an answer that has not come yet
    # Plain httpx: the response under each stream can be closed at once, and one connection pool less is imported.
    module.disable_aiohttp_transport = True


@cache
def http_library() -> str:
    """Return `litellm 1.2.3`, the library that builds a recorded body, without importing it."""
    return f"litellm {installed_version('litellm')}".rstrip()


def installed_version(name: str) -> str:
    """Return the version of an installed distribution, "" if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  (10 ms, and litellm imports it)

    try:
        return version(name)
    except PackageNotFoundError:
        return ""
