"""What the pages tell the tools: their address, and the models chosen for the whole workspace. Kept in the storage."""

import json
import re
from collections.abc import Mapping
from typing import Any

from bridge.dify.selection import MODEL_FIELDS, PAGES_KEY, read_selector
from evaluation.errors import EvaluationError
from evaluation.storage.values import Values, read_json, write

# A tool can't learn the address by itself. Only the beginning is kept: the rest may hold what somebody looked for.
_ADDRESS = r"https?://[\w.\-:\[\]]{1,255}/e/"


def note_address(values: Values, hook_url: str, hook: str, settings: Mapping[str, Any]) -> None:
    """Keeps where the pages are and which models they name, when either has changed.

    Args:
        hook_url: the header Dify-Hook-Url of somebody who may see the pages.
    """
    found = re.match(_ADDRESS + re.escape(hook) + "(?=/|$)", hook_url, re.ASCII)
    models = {name: read_selector(settings.get(name)) for name in MODEL_FIELDS}
    try:
        kept = read_json(values, PAGES_KEY)
        wanted = {"address": f"{found.group()}/" if found else kept.get("address", ""), **models}
        if wanted != kept:
            write(values, PAGES_KEY, json.dumps(wanted, ensure_ascii=False).encode())
    except EvaluationError:
        # The page is worth showing without.
        return


def pages_address(values: Values) -> str:
    """The address of the pages as a browser last opened them, "" when nobody has yet."""
    try:
        return str(read_json(values, PAGES_KEY).get("address", ""))
    except EvaluationError:
        return ""
