"""The services of one session by protocol, each made at its first use.

The makers are registered as `ServiceMaker` (`service_makers.py`); this module knows no concrete service.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar, cast

S = TypeVar("S")
Makers = Mapping[type, Callable[[], object]]


class SessionServices(Mapping[type, object]):
    """Services by their protocol and its base protocols. A membership test makes no service."""

    def __init__(self, makers: Makers | None = None) -> None:
        self._makers = dict(makers or {})
        self._instances: dict[type, object] = {}
        """By the protocol of the maker."""
        self._names = {base: name for name in self._makers for base in name.__mro__ if base not in _NO_PROTOCOLS}

    def __getitem__(self, protocol: type[S]) -> S:
        """Return a service, made at its first use; raise `KeyError` if the session has none."""
        name = self._names[protocol]
        if name not in self._instances:
            self._instances[name] = self._makers[name]()
        return cast(S, self._instances[name])

    def __contains__(self, protocol: object) -> bool:
        return protocol in self._names

    def __iter__(self) -> Iterator[type]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def find(self, protocol: type[S]) -> S | None:
        """Return a service, None if the session has none."""
        return self[protocol] if protocol in self._names else None

    def get_existing(self, protocol: type[S]) -> S | None:
        """Return a service if it was already made, else None."""
        return cast(S, self._instances[self._names[protocol]]) if self._names.get(protocol) in self._instances else None

    def continue_from(self, protocol: type, earlier: SessionServices) -> None:
        """Move a service that `earlier` has made, if any, to this session."""
        if protocol in self and earlier.get_existing(protocol) is not None:
            self._instances[self._names[protocol]] = earlier._instances.pop(earlier._names[protocol])

    def without(self, protocol: type) -> SessionServices:
        """Return the services without `protocol`."""
        makers = {name: make for name, make in self._makers.items() if protocol not in name.__mro__}
        return self._sharing(makers)

    def plus(self, protocol: type[S], service: S) -> SessionServices:
        """Return the services with one more."""
        return self._sharing({**self._makers, protocol: lambda: service})

    def _sharing(self, makers: Makers) -> SessionServices:
        sharing = SessionServices(makers)
        sharing._instances = self._instances
        return sharing


_NO_PROTOCOLS = (object, Generic, Protocol)
