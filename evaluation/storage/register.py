"""Names that can be listed, in a storage that can't list its keys and keeps one of two writes to a key.

The names stand in several copies. Who adds one reads them all and writes what they hold together into one of them,
chosen by chance: two writers at once mostly choose two. Where they choose the same, the one whose name is gone writes
again; and every later addition puts back what a copy has lost.
"""

import random
import time
from collections.abc import Mapping
from typing import Any

from evaluation.storage.values import Values, read_json, write_json

COPIES = 4
TRIES = 4
# Far more than a write takes.
SETTLING_SECONDS = 0.05


class Register:
    """The names under one key.

    Args:
        base: the copies' keys begin with it.
    """

    def __init__(self, values: Values, base: str) -> None:
        self._values = values
        self._keys = [f"{base}/{copy}" for copy in range(COPIES)]

    def names(self) -> list[str]:
        """All names, the latest first.

        Raises:
            EvaluationError: storage_failed.
        """
        entries = self._entries()
        return sorted((name for name, entry in entries.items() if entry["in"]), key=lambda n: -entries[n]["at"])

    def add(self, name: str) -> None:
        """Puts the name in; nothing is written when it is there.

        Raises:
            EvaluationError: storage_full or storage_failed.
        """
        self._set(name, present=True)

    def remove(self, name: str) -> None:
        """Takes the name out. Raises as `add`."""
        self._set(name, present=False)

    def _set(self, name: str, *, present: bool) -> None:
        for _ in range(TRIES):
            entries = self._entries()
            if bool(entries.get(name, {}).get("in")) == present:
                return
            # What was taken out stays as taken out: another copy may still hold it.
            entries[name] = {"at": time.time(), "in": present}
            write_json(self._values, random.choice(self._keys), {"names": entries})
            # By then another writer's copy, made before this name was in, has been written too.
            time.sleep(SETTLING_SECONDS)

    def _entries(self) -> dict[str, dict[str, Any]]:
        """What the copies hold together; of two entries for a name the later one counts."""
        entries: dict[str, dict[str, Any]] = {}
        for key in self._keys:
            names = read_json(self._values, key).get("names")
            for name, entry in names.items() if isinstance(names, Mapping) else ():
                if not isinstance(entry, Mapping) or not isinstance(entry.get("at"), (int, float)):
                    continue
                if name not in entries or entry["at"] > entries[name]["at"]:
                    entries[name] = {"at": entry["at"], "in": bool(entry.get("in"))}
        return entries
