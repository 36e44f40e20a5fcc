"""The limit that all calls of this process back into Dify share, and the storage behind it."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bridge.dify import places, selection
from bridge.dify.places import WAITS_SECONDS, SharedStorage, watched
from evaluation.errors import EvaluationError, JudgeError, Reason
from evaluation.judging.places import MOST_CALLS, Places
from evaluation.storage import values
from tests.evaluation.fakes import FakeClock
from tests.evaluation.runs.fakes import MemoryValues

ROOT = Path(__file__).parents[3]
BUSY = 'request failed with status code: 500 and respond with: {"code": "unknown", "message": "Internal Server Error"}'


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeClock]:
    clock = FakeClock()
    monkeypatch.setattr(places, "PLACES", Places(MOST_CALLS, clock))
    yield clock
    assert places.PLACES._in_use.total() == 0


class Failing(MemoryValues):
    """A storage that fails so many times with that text."""

    def __init__(self, text: str, times: int) -> None:
        super().__init__()
        self.text, self.times, self.calls = text, times, 0
        self.before = self._fail

    def _fail(self, _operation: str, _key: str) -> None:
        self.calls += 1
        if self.calls <= self.times:
            raise Exception(self.text)  # noqa: TRY002 - as the SDK does


OPERATIONS: dict[str, Callable[[SharedStorage], object]] = {
    "get": lambda storage: storage.get("a"),
    "set": lambda storage: storage.set("a", b"1"),
    "delete": lambda storage: storage.delete("a"),
    "exist": lambda storage: storage.exist("a"),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_storage_is_tried_again_while_dify_is_busy(operation: str, clock: FakeClock) -> None:
    inner = Failing(BUSY, 2)
    inner.storage.set("a", b"0")
    OPERATIONS[operation](SharedStorage(inner))
    assert inner.calls == 3
    assert len(clock.slept) == 2
    assert places.PLACES.limit == 3


@pytest.mark.parametrize(
    "call",
    [
        lambda storage: values.read(storage, "a"),
        lambda storage: values.write(storage, "a", b"1"),
        lambda storage: selection.load(storage, "a"),
        lambda storage: selection.save(storage, "app-1", selection.Selection({"model": "m"}), workspace=False),
    ],
)
def test_a_storage_that_stays_busy_is_neither_empty_nor_broken(call: Callable[[SharedStorage], object]) -> None:
    inner = Failing(BUSY, 100)
    with pytest.raises(EvaluationError) as caught:
        call(SharedStorage(inner))
    assert caught.value.reason is Reason.DIFY_BUSY
    assert inner.calls == len(WAITS_SECONDS) + 1


def test_a_storage_that_stays_busy_fails_as_it_says() -> None:
    inner = Failing(BUSY, 100)
    with pytest.raises(EvaluationError) as caught:
        SharedStorage(inner).get("a")
    assert caught.value.reason is Reason.DIFY_BUSY
    assert inner.calls == len(WAITS_SECONDS) + 1


def test_a_key_that_is_not_there_is_no_trouble(clock: FakeClock) -> None:
    with pytest.raises(Exception, match="load data failed"):
        SharedStorage(MemoryValues()).get("a")
    assert (places.PLACES.limit, clock.slept) == (MOST_CALLS, [])


@pytest.mark.parametrize(("seconds", "limit"), [(1.9, MOST_CALLS), (2.1, MOST_CALLS // 2)])
def test_a_storage_that_answers_slowly_tells_that_connections_are_short(
    seconds: float, limit: int, clock: FakeClock
) -> None:
    values = MemoryValues()

    def before(_operation: str, _key: str) -> None:
        clock.time += seconds

    values.before = before
    SharedStorage(values).set("a", b"1")
    assert places.PLACES.limit == limit


@pytest.mark.parametrize(
    ("error", "limit", "calm"),
    [
        (None, 7, False),
        (JudgeError(Reason.DIFY_BUSY), 3, False),
        (EvaluationError(Reason.DIFY_BUSY), 3, False),
        (JudgeError(Reason.MODEL_UNAVAILABLE), 6, False),
        (JudgeError(Reason.RATE_LIMITED), 6, False),
    ],
)
def test_what_a_call_tells_of_dify(error: EvaluationError | None, limit: int, calm: bool, clock: FakeClock) -> None:
    places.PLACES.busy(since=0.0)
    clock.time = 1.0
    for _ in range(6):
        with suppress(EvaluationError), watched():
            if error:
                raise error
    assert (places.PLACES.limit, places.PLACES.calm()) == (limit, calm)


def test_no_call_into_dify_goes_past_the_limit() -> None:
    # Wherever a session's storage, models or apps are used, they are wrapped by what knows the limit.
    wrapped = (
        r"SharedStorage\((self\.)?session\.storage\)|Dify(Judge|Embedder)\(session\.model,|asker\(self\.session\.app,"
    )
    for path in [*(ROOT / "bridge").rglob("*.py"), *(ROOT / "tools").glob("*.py")]:
        rest = re.sub(wrapped, "", path.read_text(encoding="utf-8"))
        assert not re.search(r"session\.(storage|model|app)\b(?!_)", rest), path
