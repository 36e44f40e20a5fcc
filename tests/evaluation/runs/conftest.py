import pytest

from evaluation.runs import runner, store


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LOCK_SETTLING_SECONDS", 0.0)
    monkeypatch.setattr(runner, "LOOKING_SECONDS", 0.01)
