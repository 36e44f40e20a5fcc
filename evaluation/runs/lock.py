"""One call at a time works on a run. Its lock is renewed as long as the call lives, and says how far it is."""

import threading
import time

from evaluation.errors import EvaluationError, Reason
from evaluation.storage.lock import Lock
from evaluation.storage.values import Values

RENEWAL_SECONDS = 5.0
# A renewal under way is let come to its end before the run is given back, but not for ever.
ENDING_SECONDS = 2.0


class RunLock:
    """The lock of a run, renewed from `take` to `release`.

    Args:
        total: rows of the run, for those who ask how far it is.

    Attributes:
        lost: set when another call has taken the run, since this one stood still for too long.
    """

    def __init__(self, values: Values, key: str, total: int) -> None:
        self._lock = Lock(values, key, Reason.RUN_BUSY)
        self._about = {"done": 0, "total": total}
        self._ended = threading.Event()
        self._renewing = threading.Lock()
        self.lost = threading.Event()

    def take(self) -> None:
        """Takes the run.

        Raises:
            EvaluationError: run_busy as `busy` gives it; a storage that refuses.
        """
        if busy := self.busy():
            raise busy
        try:
            self._lock.take(**self._about)
        except EvaluationError as error:
            raise (self.busy() or error) from error
        threading.Thread(target=self._keep, daemon=True).start()

    def busy(self) -> EvaluationError | None:
        """run_busy with since when (`minutes`) another call works on the run, and how far it is; None without one."""
        holder = self._lock.holder()
        if not holder:
            return None
        minutes = max(1, round((time.time() - holder.get("since", time.time())) / 60))
        far = {name: holder.get(name, known) for name, known in self._about.items()}
        return EvaluationError(Reason.RUN_BUSY, minutes=minutes, **far)

    def tell(self, done: int) -> None:
        """How many rows are finished; kept at the next renewal."""
        self._about = {**self._about, "done": done}

    def release(self) -> None:
        """Gives the run back, unless another call has it."""
        self._ended.set()
        waited = self._renewing.acquire(timeout=ENDING_SECONDS)
        self._lock.release()
        if waited:
            self._renewing.release()

    def _keep(self) -> None:
        while not self._ended.wait(RENEWAL_SECONDS) and not self.lost.is_set():
            with self._renewing:
                if not self._ended.is_set():
                    self._renew()

    def _renew(self) -> None:
        try:
            self._lock.renew(**self._about)
        except EvaluationError as error:
            # A storage that fails once may work the next time; rows that can't be kept end the run by themselves.
            if error.reason is Reason.RUN_BUSY:
                self.lost.set()
