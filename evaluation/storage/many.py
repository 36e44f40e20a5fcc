"""Several storage calls at a time: each takes milliseconds or, on a busy Dify, much longer, and a run has hundreds."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout

from evaluation.errors import EvaluationError, Reason
from evaluation.storage.values import Values, delete, read

AT_A_TIME = 8
# For calls that nobody bounds otherwise; Dify itself gives up after 250 s.
LONGEST_SECONDS = 60.0


def at_once[T, R](call: Callable[[T], R], items: Sequence[T], seconds: float = LONGEST_SECONDS) -> list[R]:
    """What the call gives for each item, in their order; 8 calls at a time.

    Args:
        seconds: for all of them. Calls that have not come back by then are left behind.

    Raises:
        EvaluationError: storage_failed when the time is over; what a call raises, after which none is begun.
    """
    until = time.monotonic() + seconds
    futures: list[Future[R]] = [Future() for _ in items]
    waiting = iter(list(zip(items, futures, strict=True)))
    stopped, lock = threading.Event(), threading.Lock()

    def work() -> None:
        while not stopped.is_set():
            with lock:
                item, future = next(waiting, (None, None))
            if future is None:
                return
            try:
                future.set_result(call(item))  # type: ignore[arg-type]
            except BaseException as error:  # noqa: BLE001 - it is raised again where the result is read
                stopped.set()
                future.set_exception(error)

    for _ in range(min(AT_A_TIME, len(items))):
        threading.Thread(target=work, daemon=True).start()
    try:
        # They are begun in their order: each before one that failed comes to its end.
        return [future.result(timeout=max(0.0, until - time.monotonic())) for future in futures]
    except FutureTimeout:
        raise EvaluationError(Reason.STORAGE_FAILED) from None
    finally:
        stopped.set()


def read_all(values: Values, keys: Sequence[str], seconds: float = LONGEST_SECONDS) -> list[bytes | None]:
    """The values of the keys, None for those that are missing; raises as `at_once`."""
    return at_once(lambda key: read(values, key), keys, seconds)


def delete_all(values: Values, keys: Sequence[str], seconds: float = LONGEST_SECONDS) -> bool:
    """Whether all of the keys are gone afterwards, those that were missing before too."""
    try:
        return all(at_once(lambda key: delete(values, key), keys, seconds))
    except EvaluationError:
        return False
