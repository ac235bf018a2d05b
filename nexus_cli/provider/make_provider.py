"""Make the provider of a session: litellm, with the retries of the settings."""

from __future__ import annotations

from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings
from nexus_cli.core.request import Provider
from nexus_cli.provider.litellm_backend import LitellmBackend
from nexus_cli.provider.retry import RetryingProvider
from nexus_cli.provider.served_models import served_model_info


def make_provider(settings: Settings, *, saves: bool = True) -> Provider:
    """Make the provider for all models that litellm knows, with the retries of the settings. Unless it `saves`, it
    keeps no template of a request."""
    templates = places().cache / "requests" if saves else None
    return RetryingProvider(
        LitellmBackend(info=lambda name: served_model_info(name, settings.models, saves=saves), templates=templates),
        tries=settings.provider.retries + 1,
        seconds=settings.provider.retry_seconds,
    )
