"""The person's end of a terminal, for loops whose clock is put forward: what is typed has arrived at once."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import termios


def waiting(terminal: int) -> int:
    """Return how many bytes can be read; of a line that the terminal edits, none before its end."""
    return int(struct.unpack("i", fcntl.ioctl(terminal, termios.FIONREAD, b"\0" * 4))[0])


class Keys:
    """Types keys; each has arrived before anything else happens."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()

    def __call__(self, key: str) -> None:
        echoes, waiting = termios.tcgetattr(self.slave)[3] & termios.ECHO, self.waiting()
        os.write(self.master, key.encode())
        if echoes:
            assert select.select([self.master], [], [], 10)[0]
            os.read(self.master, 4096)
        while not echoes and self.waiting() == waiting:
            pass

    def waiting(self) -> int:
        return waiting(self.slave)

    def close(self) -> None:
        os.close(self.master)
        os.close(self.slave)
