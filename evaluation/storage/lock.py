"""A name for one call alone, in a storage that has no lock of its own."""

import contextlib
import time
import uuid

from evaluation.errors import EvaluationError, Reason
from evaluation.storage.values import Values, read_json, write_json

# A call that was killed leaves its lock behind; one that lives renews it far more often than this.
LOCK_SECONDS = 30.0
# Far more than a write takes.
SETTLING_SECONDS = 0.2
_POLL_SECONDS = 0.3


class Lock:
    """A key that one call holds.

    Args:
        busy: the reason when another call holds it.
    """

    def __init__(self, values: Values, key: str, busy: Reason) -> None:
        self._values = values
        self._key = key
        self._busy = busy
        self._owner = uuid.uuid4().hex

    def take(self, seconds: float = 0.0) -> None:
        """Takes the key, waiting so long while another call has it.

        Raises:
            EvaluationError: busy; storage that refuses.
        """
        until = time.monotonic() + seconds
        while True:
            try:
                self.renew()
                # Two calls may both have found it free: by now both have written, and the last one has it.
                time.sleep(SETTLING_SECONDS)
                self.require()
            except EvaluationError as error:
                self.release()
                if error.reason is not self._busy or time.monotonic() >= until:
                    raise
                time.sleep(_POLL_SECONDS)
            else:
                return

    def renew(self) -> None:
        """Says that the call is still at work.

        Raises:
            EvaluationError: busy when another call has taken the key, since this one stood still for too long.
        """
        self.require()
        write_json(self._values, self._key, {"owner": self._owner, "at": time.time()})

    def require(self) -> None:
        """Raises when another call has the key."""
        held = read_json(self._values, self._key)
        # A time in the future is no better than one long past: somebody has set a clock.
        fresh = abs(time.time() - held.get("at", 0.0)) < LOCK_SECONDS
        if held.get("owner", self._owner) != self._owner and fresh:
            raise EvaluationError(self._busy)

    def release(self) -> None:
        """Gives the key free, unless another call has it."""
        with contextlib.suppress(Exception):
            if read_json(self._values, self._key).get("owner") == self._owner:
                self._values.delete(self._key)
