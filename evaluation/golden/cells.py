"""The text of a table's cell: what an export wrapped into JSON, wrote for nothing, or escaped."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from evaluation.golden.headers import Kind, header_name
from evaluation.sample import repr_as_json

# What programs write where there is nothing. "None" counts as Python spells it.
_NOTHING = frozenset(["nan", "<na>", "nat", "null", "n/a", "#n/a", "-", "--", "–", "—", "―", "−"])
# How pandas writes the lists of a data set into a cell.
_ARRAY = r"\barray\((\[[^\[\]]*\])(?:,\s*dtype=[\w<>.']+)?\)"
_WRAPPED = r"\{.*\}|\[.*\]|\".*\""
# Who says the question and the answer in a list of messages.
_ROLES = {"question": {"user", "human"}, "reference": {"assistant", "ai", "model"}}
_ROLE_KEYS = ("role", "type", "from")
_TEXT_KEYS = ("content", "text", "value", "parts")


def cleaned(cell: str) -> str:
    """The cell without space around it, with one kind of line end; Excel writes half of one as _x000D_."""
    return cell.replace("_x000D_", "").replace("\r\n", "\n").replace("\r", "\n").strip()


def is_nothing(cell: str) -> bool:
    """Whether a cell holds nothing but what an export writes for nothing."""
    return cell == "None" or cell.casefold() in _NOTHING


def inner_text(cell: str, kind: Kind) -> str | None:
    """The text in a cell that is JSON or a Python repr, by the key or the role that `kind` has; others as they are.

    Returns:
        None when it holds several texts and none is known to be the one.
    """
    wrapped, value = _parsed(cell)
    if not wrapped or (isinstance(value, list) and not any(isinstance(item, (str, list, Mapping)) for item in value)):
        return cell
    found = _keyed(value, kind)
    if found is None:
        leaves = [leaf for leaf in dict.fromkeys(_leaves(value)) if kind != "question" or not leaf.isdecimal()]
        found = None if len(leaves) > 1 else "".join(leaves)
    return found


def reference_beside(cell: str) -> str:
    """The answer that stands in the question's own cell, as in a list of messages; "" without one."""
    wrapped, value = _parsed(cell)
    return (_keyed(value, "reference") or "") if wrapped and isinstance(value, (list, Mapping)) else ""


def _parsed(cell: str) -> tuple[bool, Any]:
    if not re.fullmatch(_WRAPPED, cell, re.DOTALL):
        return False, None
    for read in (str, repr_as_json):
        try:
            return True, json.loads(read(re.sub(_ARRAY, r"\1", cell)))
        except (ValueError, RecursionError):
            continue
    return False, None


def _keyed(value: object, kind: Kind) -> str | None:
    """The text under the key of that kind or said in its role, at any depth; None without one."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list):
        return _of_list(value, kind)
    if not isinstance(value, Mapping):
        return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    # "a" names an answer beside "q" alone, else it is the first of anything.
    keys = [key for key in value if len(str(key)) > 1 or "q" in value or "Q" in value]
    named = [(name.rank, key) for key in keys if (name := header_name(str(key))) and name.kind == kind]
    for _, key in sorted(named):
        if (found := _keyed(value[key], kind)) is not None:
            return found
    plain = next((value[key] for key in _TEXT_KEYS if isinstance(value.get(key), (str, list))), None)
    if plain is not None and (found := _keyed(plain, kind)) is not None:
        return found
    inner = (_keyed(item, kind) for item in value.values() if isinstance(item, (list, Mapping)) and not _is_plain(item))
    return next((found for found in inner if found is not None), None)


def _of_list(items: list[Any], kind: Kind) -> str | None:
    said = [item for item in items if isinstance(item, Mapping) and any(key in item for key in _ROLE_KEYS)]
    by_role = [item for item in said if any(item.get(key) in _ROLES.get(kind, ()) for key in _ROLE_KEYS)]
    if by_role:
        return "\n".join(_leaves([by_role[-1].get(key) for key in _TEXT_KEYS])).strip()
    if _is_plain(items):
        return "\n".join(items) if kind != "question" or len(items) == 1 else None
    return _keyed(items[0], kind) if len(items) == 1 else None


def _is_plain(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _leaves(value: object) -> Iterator[str]:
    """The texts and numbers in a value, without the names of what they are."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key not in {"type", "role"}:
                yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool) and str(value).strip():
        yield str(value).strip()
