"""Whether the time of a reader grows with the length of what it reads, and not with its square."""

import time
from collections.abc import Callable

SHORT, LONG = 20_000, 200_000
# Ten times the length takes ten times the time, or a hundred times when it is quadratic.
MOST_TIMES_LONGER = 40
LEAST_SECONDS = 0.002


def assert_linear(read: Callable[[str], object], made: Callable[[int], str]) -> None:
    """Reads `made(n)`, a text that grows with n, cut to 20,000 and to 200,000 characters."""

    def seconds(characters: int) -> float:
        text = made(characters // len(made(1)) + 1)[:characters]
        started = time.process_time()
        read(text)
        return time.process_time() - started

    seconds(1000)
    short, long = min(seconds(SHORT) for _ in range(3)), seconds(LONG)
    assert long < MOST_TIMES_LONGER * max(short, LEAST_SECONDS), f"{short:.3f} s, {long:.3f} s"
