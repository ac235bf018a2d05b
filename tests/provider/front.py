"""A server in front of the scripted one, on another port: it passes connections on, with TLS if asked, or redirects."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import threading
from pathlib import Path

from server.play import ScriptedServer


def certificate(folder: Path) -> Path:
    """A certificate for 127.0.0.1 with its key, signed by itself: `openssl` makes it."""
    made = folder / "certificate.pem"
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run([*command.split(), "-keyout", made, "-out", folder / "only.pem"], check=True, capture_output=True)
    made.write_text(made.read_text() + (folder / "only.pem").read_text())
    return made


class Front:
    """A context manager; `status`, if it is not 0, is that of a redirect to the server behind."""

    def __init__(self, behind: ScriptedServer, certificate: Path | None = None) -> None:
        self.behind, self.status, self.requests = behind, 0, 0
        self._tls = None
        if certificate is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(certificate)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Front:
        self._thread.start()
        starting = asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result(60)
        self.url = f"http{'s' if self._tls else ''}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    def base(self, form: str) -> str:
        """As `ScriptedServer.base`."""
        return self.behind.base(form).replace(self.behind.url, self.url)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self.status:
                await self._redirect(reader, writer)
            else:
                there = await asyncio.open_connection("127.0.0.1", self.behind.port)
                await asyncio.gather(_pass_on(reader, there[1]), _pass_on(there[0], writer))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _redirect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        await reader.readexactly(int(head.lower().partition("content-length: ")[2].partition("\r\n")[0]))
        self.requests += 1
        place = self.behind.url + head.split(" ")[1]
        writer.write(f"HTTP/1.1 {self.status} Moved\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
