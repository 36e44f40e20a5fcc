"""The plugin's key-value storage, with what goes wrong in it as reason codes.

It can't list its keys and keeps one of two writes to a key; a value travels as hex in one line, which must stay far
below 5 MB. What is over the declared size is refused and written all the same.
"""

import contextlib
import json
from typing import Any, Protocol

from evaluation.errors import EvaluationError, Reason

MAX_VALUE_BYTES = 900_000
# Dify's words for a write that it refused for the storage's size.
_FULL = "max storage size"


class Values(Protocol):
    """A key-value store. Reading or deleting a missing key raises."""

    def get(self, key: str) -> bytes: ...
    def set(self, key: str, val: bytes) -> None: ...
    def delete(self, key: str) -> None: ...
    def exist(self, key: str) -> bool: ...


def read(values: Values, key: str) -> bytes | None:
    """The value, None when there is none. A failing storage must not look like an empty one.

    Raises:
        EvaluationError: storage_failed, or what the store itself says.
    """
    try:
        return values.get(key)
    except EvaluationError:
        raise
    except Exception:  # noqa: BLE001 - Dify tells a missing key by a bare exception
        try:
            # Another call may have written it meanwhile.
            return values.get(key) if values.exist(key) else None
        except Exception as error:
            raise EvaluationError(Reason.STORAGE_FAILED) from error


def read_json(values: Values, key: str) -> dict[str, Any]:
    """The object kept under the key, {} when there is none or it can't be read as one.

    Raises:
        EvaluationError: storage_failed.
    """
    try:
        value = json.loads(read(values, key) or b"{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def write(values: Values, key: str, value: bytes) -> None:
    """Keeps a value.

    Raises:
        EvaluationError: storage_full or storage_failed, or what the store itself says. The value may be there all the
            same.
    """
    try:
        values.set(key, value)
    except EvaluationError:
        raise
    except Exception as error:
        raise EvaluationError(Reason.STORAGE_FULL if is_full(error) else Reason.STORAGE_FAILED) from error


def is_full(error: Exception) -> bool:
    """Whether a write was refused because all values together are over the declared size."""
    return _FULL in str(error)


def write_json(values: Values, key: str, value: dict[str, Any]) -> None:
    """Keeps an object; raises as `write`."""
    write(values, key, json.dumps(value, ensure_ascii=False).encode(errors="replace"))


def delete(values: Values, key: str) -> bool:
    """Whether the key is gone afterwards, also when it was missing before."""
    try:
        values.delete(key)
    except Exception:  # noqa: BLE001 - a missing key is told by a bare exception too
        try:
            return not values.exist(key)
        except Exception:  # noqa: BLE001 - it may still be there
            return False
    return True


def discard(values: Values, key: str) -> None:
    """Deletes a value if there is one; what can't be deleted stays."""
    with contextlib.suppress(Exception):
        values.delete(key)
