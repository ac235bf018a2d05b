"""The ports on which the jobs of one session listen, and their forwards to the person's loopback.

This process holds each listener on 127.0.0.1 and passes bytes on to the network of the jobs. A forward ends with its
job, or when the job closes the port.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from nexus_cli.core.approval import Allow, Question
from nexus_cli.core.errors import reason_of
from nexus_cli.core.event import Notice
from nexus_cli.core.limits import UNASKED
from nexus_cli.core.message import ToolCall
from nexus_cli.tools.background_process import BackgroundProcess
from nexus_cli.tools.listeners import ListeningPort, free_port, network_of

if TYPE_CHECKING:
    from nexus_cli.sandbox.session_network import SessionNetwork
    from nexus_cli.session.base_session import BaseSession

ASK, OFF = "ask", "off"
"""Values of `jobs.forward`; the third is "auto"."""
MIN_PORT = 1024
KNOWN_PORTS: Mapping[int, str] = {
    1080: "SOCKS",
    1234: "LM Studio",
    1433: "SQL Server",
    1521: "Oracle",
    1883: "MQTT",
    2375: "Docker",
    2376: "Docker",
    2379: "etcd",
    3128: "Squid",
    3306: "MySQL",
    3389: "RDP",
    4317: "OpenTelemetry",
    4318: "OpenTelemetry",
    5037: "adb",
    5432: "PostgreSQL",
    5672: "RabbitMQ",
    5900: "VNC",
    5984: "CouchDB",
    6000: "X11",
    6379: "Redis",
    6443: "Kubernetes",
    7687: "Neo4j",
    8086: "InfluxDB",
    8200: "Vault",
    8500: "Consul",
    9042: "Cassandra",
    9092: "Kafka",
    9200: "Elasticsearch",
    9222: "Chrome",
    9229: "Node.js",
    11211: "memcached",
    11434: "Ollama",
    26257: "CockroachDB",
    27017: "MongoDB",
}
"""Ports by whose number programs of the person find a service, and send it keys or data: no job may stand in there."""
MAX_PORTS = 32
"""Most ports of a job that count, the lowest ones: each forward is a socket of this process."""
_SECONDS = 10.0
"""Time limit of a connection to a job."""
_PIECE = 1 << 16


@dataclass(eq=False)
class JobPort:
    """A port on which a job listens."""

    listener: ListeningPort
    url: str = ""
    """Where the person reaches it; "" if they cannot."""
    why: str = ""
    """Why they cannot; both are "" while the person has not been asked."""
    server: asyncio.Server | None = None
    """The forward; None for a port on the person's own loopback."""
    is_told: bool = False
    """True once the model was told."""

    def describe(self, job: str) -> str:
        """Return the line about it for the model."""
        if not self.url:
            why = self.why or "not decided yet"
            return f"{job} listens on port {self.listener.port}, for commands only: the person cannot open it ({why})"
        is_moved = not self.url.endswith(f":{self.listener.port}")
        moved = (
            f" (forwarded: outside the sandbox port {self.listener.port} is taken, in the sandbox it is unchanged)"
            if is_moved
            else ""
        )
        return f"{job} {self.url}{moved}: the person can open it until {job} ends"


class JobPorts:
    """The ports of the jobs of one session."""

    def __init__(self, session: BaseSession) -> None:
        self.session = session
        self._ports: dict[tuple[str, int], JobPort] = {}
        """By job and port."""
        self._sockets: dict[str, frozenset[str]] = {}
        """The listening sockets in the network of each job at the last look."""
        self._is_allowed = False
        """True if the person allowed all forwards of this session."""
        self._lock = asyncio.Lock()
        self._pool = ThreadPoolExecutor(1, "ports")
        """Fetches the sockets: no number of connections keeps other work from the threads of all."""

    async def look(self, jobs: Mapping[str, BackgroundProcess], *, asks: bool = False) -> None:
        """Find the ports of running jobs, and forward those that may be; `asks`: the person may be asked now."""
        async with self._lock:
            for job, process in jobs.items():
                sockets = await asyncio.to_thread(process.list_listening)
                if sockets != self._sockets.get(job):
                    ports = await asyncio.to_thread(process.find_listeners)
                    self._sockets[job] = sockets
                    self._update(job, ports[:MAX_PORTS])
            for (job, _), port in list(self._ports.items()):
                if not port.url and not port.why:
                    await self._decide(job, port, asks)

    async def open(self, job: str) -> None:
        """Forward the ports of a job that the person was not asked about, or has declined before."""
        async with self._lock:
            for port in self._ports_of(job):
                if not port.url and not self._refuse(port.listener, is_typed=True):
                    port.why, port.is_told = "", False
                    await self._forward(job, port)

    def find(self, number: int) -> Callable[[], socket.socket] | None:
        """Return a function that connects to the job that listens on a port, None if none does or it cannot be
        reached."""
        for (_, port), job_port in self._ports.items():
            if port == number and job_port.listener.network == network_of():
                return partial(socket.create_connection, (job_port.listener.address, number), _SECONDS)
            network = self._network
            if port == number and network is not None and job_port.listener.network == network.name:
                return partial(network.connect, job_port.listener.address, number, _SECONDS)
        return None

    def urls(self, job: str) -> list[str]:
        """Return the addresses at which the person reaches a job."""
        return [port.url for port in self._ports_of(job) if port.url]

    def addresses(self, job: str) -> list[str]:
        """Return the address of each port of a job for the person, or the reason that there is none."""
        return [
            port.url or f"(port {port.listener.port}: {port.why or 'not forwarded yet'})"
            for port in self._ports_of(job)
        ]

    def describe(self, job: str) -> list[str]:
        """Return a line about each port of a job."""
        return [port.describe(job) for port in self._ports_of(job)]

    def pop_new_ports(self, job: str = "") -> list[str]:
        """Return the lines about ports (of one job) that the model was not told yet."""
        lines = []
        for (of, _), port in self._ports.items():
            if job in ("", of) and not port.is_told:
                port.is_told = bool(port.url or port.why)
                lines += [port.describe(of)] * port.is_told
        return lines

    def _ports_of(self, job: str) -> list[JobPort]:
        return [port for (of, _), port in self._ports.items() if of == job]

    def close(self, job: str) -> None:
        """End the forwards of a job that has ended."""
        self._sockets.pop(job, None)
        self._update(job, ())

    def _update(self, job: str, ports: Iterable[ListeningPort]) -> None:
        now = {(job, listening_port.port): listening_port for listening_port in ports}
        for key in [key for key in self._ports if key[0] == job and key not in now]:
            closed = self._ports.pop(key)
            if closed.server is not None:
                closed.server.close()
        for key, listener in now.items():
            self._ports.setdefault(key, JobPort(listener))

    @property
    def _network(self) -> SessionNetwork | None:
        return self.session.dispatcher.permission.network

    def _refuse(self, listener: ListeningPort, *, is_typed: bool) -> str:
        """Return the reason why a port cannot be forwarded, "" if it can; `is_typed`: the person asks for it."""
        session, network = self.session, self._network
        if listener.port < MIN_PORT:
            return f"ports below {MIN_PORT} are not forwarded"
        if service := KNOWN_PORTS.get(listener.port):
            return f"the default port of {service}"
        if network is None or listener.network != network.name:
            return "the job uses a separate network"
        if not is_typed and session.engine.settings.jobs.forward == OFF:
            return "jobs.forward is off"
        if not is_typed and (session.has_no_ledger or not session.options.interactive or session.options.spawner):
            return "this session is not interactive"
        return ""

    async def _decide(self, job: str, port: JobPort, asks: bool) -> None:
        if port.listener.network == network_of():
            port.url = f"http://127.0.0.1:{port.listener.port}"
            return
        port.why = self._refuse(port.listener, is_typed=False)
        if port.why:
            return
        session = self.session
        is_asked = session.engine.settings.jobs.forward == ASK and session.dispatcher.level not in UNASKED
        if is_asked and not self._is_allowed:
            if not asks and session.engine.control.running:
                return  # the step asks at its end
            if not asks:
                line = (
                    f"{job} listens on port {port.listener.port}: /jobs open {job} makes it available to your browser"
                )
                session.engine.control.emit_from_background(Notice(line, warning=False))
                port.why = f"/jobs open {job} forwards it"
                return
            call = ToolCall(f"{job}-{port.listener.port}", "forward", {"job": job, "port": port.listener.port})
            title = f"forward port {port.listener.port} of {job} to 127.0.0.1 for your browser"
            answer = await session.dispatcher.ask_followup(
                Question(call, title, "pages of the job become reachable on this machine", "", "every port", "network"),
                session.engine.control,
            )
            if not isinstance(answer, Allow):
                port.why = "declined by the person" if answer else "nobody can be asked"
                return
            self._is_allowed = answer.always
        await self._forward(job, port)

    async def _forward(self, job: str, port: JobPort) -> None:
        network = self._network
        assert network is not None, "`_refuse` has looked"
        try:
            door = free_port(port.listener.port, KNOWN_PORTS)
            port.server = await asyncio.start_server(partial(self._serve, network, port.listener), sock=door)
        except OSError as error:
            port.why = f"it cannot be forwarded: {reason_of(error)}"
            return
        if (job, port.listener.port) not in self._ports:  # the job has ended meanwhile
            port.server.close()
            return
        port.url = f"http://127.0.0.1:{door.getsockname()[1]}"
        line = f"{job} is open at {port.url} until {job} ends (to stop it: /jobs stop {job})"
        self.session.engine.control.emit_from_background(Notice(line, warning=False))

    async def _serve(
        self,
        network: SessionNetwork,
        listener: ListeningPort,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Pass the bytes of one connection on, both ways."""
        loop = asyncio.get_running_loop()
        outgoing = None
        try:
            outgoing = await loop.run_in_executor(self._pool, network.open_socket, listener.address)
            outgoing.setblocking(False)
            async with asyncio.timeout(_SECONDS):
                await loop.sock_connect(outgoing, (listener.address, listener.port))
            incoming, back = await asyncio.open_connection(sock=outgoing)
        except OSError:  # a time-out is one too
            if outgoing is not None:
                outgoing.close()
            writer.transport.abort()
            return
        try:
            await asyncio.gather(_copy(reader, back), _copy(incoming, writer))
        finally:
            back.close()
            writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_PIECE):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
