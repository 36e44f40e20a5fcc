"""Files over real HTTP: never more of one in memory than is allowed."""

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from dify_plugin.file.entities import FileType
from dify_plugin.file.file import File

from bridge.dify.files import fetch
from evaluation.errors import EvaluationError, Reason

LIMIT = 1_000_000


class Sending(BaseHTTPRequestHandler):
    """Sends without telling a size, and counts what it could send before the other side had enough."""

    sent = 0
    endless = False
    status = 200
    packed = False

    def log_message(self, *_: object) -> None:
        """Keep the output quiet."""

    def do_GET(self) -> None:
        self.send_response(self.status)
        if self.packed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        part = gzip.compress(bytes(50_000_000)) if self.packed else b"x" * 100_000
        try:
            for _ in range(500 if self.endless else 3):
                self.wfile.write(part)
                type(self).sent += len(part)
        except OSError:
            pass


@pytest.fixture
def sending() -> Iterator[type[Sending]]:
    class Mine(Sending):
        pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Mine) as server:
        Mine.address = f"http://127.0.0.1:{server.server_address[1]}/x"  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield Mine
        server.shutdown()


def file(sending: Any, **changes: Any) -> File:
    return File(**{"url": sending.address, "filename": "質問.csv", "size": None, "type": FileType.DOCUMENT} | changes)


def refused(file: File) -> EvaluationError:
    with pytest.raises(EvaluationError) as caught:
        fetch(file, LIMIT)
    assert caught.value.values["file"] == "質問.csv"
    return caught.value


def test_a_file_without_a_known_size_is_fetched(sending: Any) -> None:
    assert fetch(file(sending), LIMIT) == b"x" * 300_000


@pytest.mark.parametrize("size", [None, -1, 0, 10])
def test_a_file_that_goes_on_is_left_at_the_limit_whatever_size_was_told(sending: Any, size: int | None) -> None:
    sending.endless = True
    error = refused(file(sending, size=size))
    assert error.reason is Reason.FILE_TOO_LARGE
    assert LIMIT / 1e6 < error.values["size"] < 2 * LIMIT / 1e6
    # What lay in the buffers of the connection was sent in vain.
    assert sending.sent < 30_000_000


def test_a_file_that_is_told_to_be_too_large_is_not_asked_for(sending: Any) -> None:
    assert refused(file(sending, size=40_000_000)).values["size"] == 40.0
    assert sending.sent == 0


def test_a_packed_file_that_unpacks_to_too_much_is_left_too(sending: Any) -> None:
    sending.packed = True
    assert refused(file(sending)).reason is Reason.FILE_TOO_LARGE


@pytest.mark.parametrize("status", [302, 403, 404, 500])
def test_a_file_that_is_not_given_is_unreachable(sending: Any, status: int) -> None:
    sending.status = status
    assert refused(file(sending)).reason is Reason.FILE_UNREACHABLE


@pytest.mark.parametrize("url", ["nowhere", "/files/x", "ftp://127.0.0.1/x", "http://127.0.0.1:9/x"])
def test_an_address_that_leads_nowhere_is_told(sending: Any, url: str) -> None:
    assert refused(file(sending, url=url)).reason is Reason.FILE_UNREACHABLE
