"""A name for one call alone, in a storage that has no lock of its own."""

import contextlib
import threading
import time
import uuid
from typing import Any

from evaluation.errors import EvaluationError, Reason
from evaluation.storage.values import Values, read_json, write_json

# A call that was killed leaves its lock behind; one that lives renews it far more often than this.
LOCK_SECONDS = 30.0
# Far more than a write takes.
SETTLING_SECONDS = 0.2
_POLL_SECONDS = 0.3
RENEWAL_SECONDS = 5.0
# A renewal under way is let come to its end before the key is given free, but not for ever.
ENDING_SECONDS = 2.0
# Of a lock that this process has written it is known whether its call still lives.
_PROCESS = uuid.uuid4().hex
_alive: set[str] = set()


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
        self._since = time.time()

    def take(self, seconds: float = 0.0, **about: Any) -> None:
        """Takes the key, waiting so long while another call has it; `about` is for others to know.

        Raises:
            EvaluationError: busy; storage that refuses.
        """
        until = time.monotonic() + seconds
        _alive.add(self._owner)
        while True:
            try:
                self.renew(**about)
                # Two calls may both have found it free: by now both have written, and the last one has it.
                time.sleep(SETTLING_SECONDS)
                self.require()
            except EvaluationError as error:
                if error.reason is not self._busy or time.monotonic() >= until:
                    self.release()
                    raise
                time.sleep(_POLL_SECONDS)
            else:
                return

    def renew(self, **about: Any) -> None:
        """Says that the call is still at work, and what else others may know of it.

        Raises:
            EvaluationError: busy when another call has taken the key, since this one stood still for too long.
        """
        self.require()
        mine = {"owner": self._owner, "process": _PROCESS, "since": self._since, "at": time.time()}
        write_json(self._values, self._key, {**about, **mine})

    def require(self) -> None:
        """Raises when another call has the key."""
        if self.holder():
            raise EvaluationError(self._busy)

    def holder(self) -> dict[str, Any]:
        """What the other call that has the key says of itself: `since`, `at` (seconds since 1970) and what it told.

        {} when there is none: nobody has it, or whoever had it is dead as far as it can be known. That is so when its
        process is this one and has let it go, and when it was not renewed for half a minute.
        """
        held = read_json(self._values, self._key)
        at, owner = held.get("at", 0.0), held.get("owner", self._owner)
        if owner == self._owner or (held.get("process") == _PROCESS and owner not in _alive):
            return {}
        # A time in the future is no better than one long past: somebody has set a clock.
        return held if abs(time.time() - at) < LOCK_SECONDS else {}

    def release(self) -> None:
        """Gives the key free, unless another call has it."""
        _alive.discard(self._owner)
        with contextlib.suppress(Exception):
            if read_json(self._values, self._key).get("owner") == self._owner:
                self._values.delete(self._key)


class RenewedLock:
    """A lock that is renewed from `take` to `release`, for calls that take long.

    Args:
        busy: the reason when another call holds the key.
        about: for other calls to know.

    Attributes:
        lost: set when another call has taken the key, since this one stood still for too long.
    """

    def __init__(self, values: Values, key: str, busy: Reason, **about: Any) -> None:
        self._lock = Lock(values, key, busy)
        self._busy = busy
        self.about = about
        self._ended = threading.Event()
        self._renewing = threading.Lock()
        self.lost = threading.Event()

    def take(self) -> None:
        """Takes the key.

        Raises:
            EvaluationError: busy; storage that refuses.
        """
        self._lock.take(**self.about)
        threading.Thread(target=self._keep, daemon=True).start()

    def holder(self) -> dict[str, Any]:
        """As Lock.holder."""
        return self._lock.holder()

    def tell(self, **about: Any) -> None:
        """What others may know; kept at the next renewal."""
        self.about = {**self.about, **about}

    def require(self) -> None:
        """As Lock.require; also when another call had the key meanwhile."""
        self._lock.require()
        if self.lost.is_set():
            raise EvaluationError(self._busy)

    def release(self) -> None:
        """Gives the key free, unless another call has it."""
        self._ended.set()
        waited = self._renewing.acquire(timeout=ENDING_SECONDS)
        self._lock.release()
        if waited:
            self._renewing.release()

    def _keep(self) -> None:
        try:
            while not self._ended.wait(RENEWAL_SECONDS) and not self.lost.is_set():
                with self._renewing:
                    if not self._ended.is_set():
                        self._renew()
        except BaseException:  # noqa: BLE001 - whatever ends the renewing, the call no longer holds the key
            self.lost.set()

    def _renew(self) -> None:
        try:
            self._lock.renew(**self.about)
        except EvaluationError as error:
            # A storage that fails once may work the next time; what can't be kept ends the call by itself.
            if error.reason is self._busy:
                self.lost.set()
