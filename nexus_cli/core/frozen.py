"""The decorator of the classes of values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import dataclass_transform

from nexus_cli.core.shared_types import T


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(kind: type[T]) -> type[T]:
    """Make `kind` a data class with slots whose fields cannot be set later."""
    return dataclass(frozen=True, slots=True)(kind)
