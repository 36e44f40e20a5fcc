import pytest

from evaluation.runs import opening, runner
from evaluation.storage import lock, register


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "SETTLING_SECONDS", 0.0)
    # On a slow machine a renewal would fall among the calls that are counted, or after a process has ended.
    monkeypatch.setattr(lock, "RENEWAL_SECONDS", 1000.0)
    monkeypatch.setattr(register, "SETTLING_SECONDS", 0.0)
    monkeypatch.setattr(runner, "LOOKING_SECONDS", 0.01)
    monkeypatch.setattr(opening, "JOINING_SECONDS", 0.01)
