"""What the demo prints: progress while a reply is made, and the reply as a chat shows it."""

import shutil
import sys
import threading
import time
import unicodedata
from types import TracebackType
from typing import Self, TextIO

from devhost.chatflow import NodeProgress

DONE = {"succeeded": "完了", "failed": "失敗"}


class Waiting:
    """Tells which nodes run, while the block runs: one changing line on a terminal, else a line per finished node."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out
        self._tty = out.isatty()
        self._running: dict[str, str] = {}
        self._started = time.monotonic()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        if self._tty:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._tty:
            self._thread.join()
            self._write("\r\033[K")

    @property
    def seconds(self) -> float:
        """Since the block began."""
        return time.monotonic() - self._started

    def on_node(self, progress: NodeProgress) -> None:
        """Take note of a node that starts or ends."""
        with self._lock:
            if progress.state == "started":
                self._running[progress.node_id] = progress.title
                return
            self._running.pop(progress.node_id, None)
        line = f"  {self.seconds:4.0f} 秒  {progress.title}: {DONE[progress.state]}\n"
        self._write(f"\r\033[K{line}" if self._tty else line)

    def _watch(self) -> None:
        while not self._stop.wait(0.2):
            with self._lock:
                titles = "、".join(self._running.values())
            if titles:
                line = f"  {self.seconds:4.0f} 秒  実行中: {titles} …"
                self._write("\r\033[K" + fitting(line, shutil.get_terminal_size().columns - 1))

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


def fitting(line: str, columns: int) -> str:
    """The line's beginning that fits in that many columns; a full-width character takes two."""
    used = 0
    for index, char in enumerate(line):
        used += 2 if unicodedata.east_asian_width(char) in "FWA" else 1
        if used > columns:
            return line[:index]
    return line


def framed(text: str) -> str:
    """A chat message with a bar at its left."""
    return "\n".join(f"  │ {line}".rstrip() for line in text.strip().splitlines())
