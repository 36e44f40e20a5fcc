"""Values as the SDK can write them on the wire."""

import json
from typing import Any


def sendable(value: Any) -> Any:
    """The JSON value with "?" for halves of characters, which no encoding can write.

    A judge leaves one where it is cut off in the middle of the two escapes that make an emoji; sent as it is, it would
    end the tool with an exception.

    Raises:
        TypeError: the value is not made of JSON types.
    """
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
