"""Files that a tool is given, fetched from Dify."""

import httpx
from dify_plugin.file.file import File

from evaluation.errors import EvaluationError, Reason

# Seconds without a byte after which Dify is given up on.
PATIENCE = 20


def fetch(file: File, limit: int) -> bytes:
    """The content of a file, never more than `limit` bytes of it.

    The SDK's own `File.blob` loads whatever comes into memory; a file's size is not always told, nor always true.

    Raises:
        EvaluationError: file_too_large, file_unreachable.
    """
    name = file.filename or "file"
    if file.size and file.size > limit:
        raise _too_large(name, file.size, limit)
    content = bytearray()
    try:
        # Packed bytes could become a thousand times as many at once.
        headers = {"Accept-Encoding": "identity"}
        with httpx.stream("GET", file.url, headers=headers, timeout=PATIENCE) as response:
            response.raise_for_status()
            told = int(response.headers.get("Content-Length") or 0)
            for part in response.iter_bytes() if told <= limit else ():
                content += part
                if len(content) > limit:
                    break
    except Exception as error:
        raise EvaluationError(Reason.FILE_UNREACHABLE, file=name) from error
    if max(told, len(content)) > limit:
        raise _too_large(name, max(told, len(content)), limit)
    return bytes(content)


def _too_large(name: str, size: int, limit: int) -> EvaluationError:
    return EvaluationError(Reason.FILE_TOO_LARGE, file=name, size=size / 1e6, limit=limit / 1e6)
