"""Files on their way through a flow: kept by id, and served over HTTP on this machine, as Dify does for plugins."""

import mimetypes
import threading
import uuid
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePath
from typing import Any, Self
from urllib.parse import urlsplit

from graphon.file.enums import FileTransferMethod, FileType
from graphon.file.models import File
from graphon.file.runtime import set_workflow_file_runtime


class HostedFiles:
    """Files that a user uploads or a tool makes; a context manager that serves them on a free port of 127.0.0.1.

    It is graphon's ToolFileManagerProtocol, as far as tool nodes use it.
    """

    def __init__(self) -> None:
        self._files: dict[str, tuple[bytes, File]] = {}
        self._fetched: list[str] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(5)

    @property
    def fetched(self) -> list[str]:
        """The ids of the files that were fetched, in order."""
        return list(self._fetched)

    def add(self, filename: str, data: bytes, *, size: int | None = None, made_by_tool: bool = False) -> File:
        """Keep a file.

        Args:
            filename: its ending tells the MIME type.
            data: the content.
            size: the size that is told; that of the content when omitted.
            made_by_tool: uploaded by a user otherwise.
        """
        file_id = str(uuid.uuid4())
        mime_type = mimetypes.guess_type(filename)[0] or "application/octet-stream"
        address = f"http://127.0.0.1:{self._http.server_address[1]}/files/{file_id}/file-preview"
        file = File(
            file_type=FileType.DOCUMENT,
            transfer_method=FileTransferMethod.TOOL_FILE if made_by_tool else FileTransferMethod.LOCAL_FILE,
            remote_url=f"{address}?timestamp=0&nonce=0&sign=0",
            reference=file_id,
            filename=filename,
            extension=PurePath(filename).suffix.lower(),
            mime_type=mime_type,
            size=len(data) if size is None else size,
        )
        self._files[file_id] = (data, file)
        return file

    def content(self, file: File | Mapping[str, Any]) -> bytes:
        """The content of a file that was added, from the file or from what a node's outputs say of it."""
        file_id = file.reference if isinstance(file, File) else file["reference"]
        return self._files[str(file_id)][0]

    def file(self, file_id: str) -> File:
        """The file with an id."""
        return self._files[file_id][1]

    def create_file_by_raw(self, *, file_binary: bytes, mimetype: str, filename: str | None = None) -> File:
        """Keep a tool's blob."""
        name = filename or f"file{mimetypes.guess_extension(mimetype) or ''}"
        file = self.add(name, file_binary, made_by_tool=True)
        file.id, file.mime_type = file.reference, mimetype
        return file

    def get_file_generator_by_tool_file_id(self, tool_file_id: str) -> tuple[None, File | None]:
        """The file alone: its content is asked for over HTTP."""
        entry = self._files.get(tool_file_id)
        return None, entry[1] if entry else None

    def _fetch(self, path: str) -> tuple[bytes, File] | None:
        file_id = urlsplit(path).path.split("/")[2:3]
        entry = self._files.get(file_id[0]) if file_id else None
        if entry is not None:
            self._fetched.append(file_id[0])
        return entry


def _handler_for(files: HostedFiles) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Keep the output quiet."""

        def do_GET(self) -> None:
            entry = files._fetch(self.path)
            data = b"Not Found" if entry is None else entry[0]
            self.send_response(404 if entry is None else 200)
            self.send_header("Content-Type", (entry and entry[1].mime_type) or "text/plain")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler


class _Addresses:
    """Tells graphon, which asks one object of the whole process, where a file is served: the file knows it."""

    def resolve_file_url(self, *, file: File, for_external: bool = True) -> str | None:  # noqa: ARG002 - graphon's
        return file.remote_url


set_workflow_file_runtime(_Addresses())  # type: ignore[arg-type] # the one method that files are asked for here
