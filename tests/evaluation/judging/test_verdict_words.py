"""What judges write for yes and no."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from evaluation.judging.verdict_words import read_verdict

DATA = Path(__file__).parents[2] / "data"
VALUES = [json.loads(line) for line in (DATA / "cases" / "verdict_values.jsonl").read_text().splitlines()]

SENTENCES = tomllib.loads((DATA / "cases" / "verdict_sentences.toml").read_text(encoding="utf-8"))
OTHERS: list[Any] = [2, -1, 0.5, None, [], {}, [1], float("nan")]


@pytest.mark.parametrize("value", SENTENCES["yes"])
def test_a_clear_yes(value: object) -> None:
    assert read_verdict(value) is True


@pytest.mark.parametrize("value", SENTENCES["no"])
def test_a_clear_no(value: object) -> None:
    assert read_verdict(value) is False


@pytest.mark.parametrize("value", [*SENTENCES["unclear"], *OTHERS], ids=str)
def test_what_is_not_clear_is_no_verdict(value: object) -> None:
    with pytest.raises(ValueError, match="not a verdict"):
        read_verdict(value)


@pytest.mark.parametrize("case", VALUES, ids=lambda case: json.dumps(case["value"], ensure_ascii=False))
def test_the_recorded_values(case: dict[str, Any]) -> None:
    if case["want"] == "invalid":
        with pytest.raises(ValueError, match="not a verdict"):
            read_verdict(case["value"])
    else:
        assert read_verdict(case["value"]) == (case["want"] == 1)


def test_a_long_sentence_is_read_by_its_beginning() -> None:
    assert read_verdict("はい、" + "書かれています。" * 20_000) is True
    for long in (" " * 200_000, "1" * 200_000, "yes" * 70_000, "はい" * 70_000):
        with pytest.raises(ValueError, match="not a verdict"):
            read_verdict(long)
