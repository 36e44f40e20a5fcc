"""One call at a time works on a run. Its lock is renewed as long as the call lives, and says how far it is."""

import threading
import time

from evaluation.errors import EvaluationError, Reason
from evaluation.storage.lock import RenewedLock
from evaluation.storage.values import Values


class RunLock:
    """The lock of a run, renewed from `take` to `release`.

    Args:
        total: rows of the run, for those who ask how far it is.
    """

    def __init__(self, values: Values, key: str, total: int) -> None:
        self._lock = RenewedLock(values, key, Reason.RUN_BUSY, done=0, total=total)

    @property
    def lost(self) -> threading.Event:
        """Set when another call has taken the run, since this one stood still for too long."""
        return self._lock.lost

    def take(self) -> None:
        """Takes the run.

        Raises:
            EvaluationError: run_busy as `busy` gives it; a storage that refuses.
        """
        if busy := self.busy():
            raise busy
        try:
            self._lock.take()
        except EvaluationError as error:
            raise (self.busy() or error) from error

    def busy(self) -> EvaluationError | None:
        """run_busy with since when (`minutes`) another call works on the run, and how far it is; None without one."""
        holder = self._lock.holder()
        if not holder:
            return None
        minutes = max(1, round((time.time() - holder.get("since", time.time())) / 60))
        far = {name: holder.get(name, known) for name, known in self._lock.about.items()}
        return EvaluationError(Reason.RUN_BUSY, minutes=minutes, **far)

    def tell(self, done: int) -> None:
        """How many rows are finished; kept at the next renewal."""
        self._lock.tell(done=done)

    def release(self) -> None:
        """Gives the run back, unless another call has it."""
        self._lock.release()
