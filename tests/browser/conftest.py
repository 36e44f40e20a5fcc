"""A browser for all tests of this folder."""

import os
from collections.abc import Iterator

import pytest

from tests.browser.browser import Browser, find_chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("Chromium is not installed, and CI must have it")
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    with Browser(program) as started:
        yield started
