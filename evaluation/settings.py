"""The settings of a tool, read from what a form or a variable hands over."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

from evaluation.errors import EvaluationError, Reason

Depth = Literal["economy", "standard", "careful"]
DEPTHS: tuple[Depth, ...] = ("economy", "standard", "careful")
VOTES = (1, 3, 5)


def read_number(value: object, name: str, low: float, high: float) -> float | None:
    """A number setting; None when it was left empty. Full-width digits and decimal or thousands commas are read.

    Per cent ("70%") is read where the number is a share: 300 % are no count.

    Raises:
        EvaluationError: invalid_setting when it is no number from `low` to `high`.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    number: float | None = None
    if isinstance(value, str):
        text = unicodedata.normalize("NFKC", value).strip()
        # "1,000" has thousands, "0,5" and "0,500" have decimals.
        text = text.replace(",", "" if re.match(r"[+-]?[1-9]\d{0,2}(,\d{3})+(?![\d,])", text) else ".")
        if re.fullmatch(rf"[+-]?(\d+\.?\d*|\.\d+){' ?%?' if high <= 1 else ''}", text):
            number = float(text.rstrip("% ")) / (100 if text.endswith("%") else 1)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        number = float(value)
    if number is None or not low <= number <= high:
        raise invalid_setting(name, value, f"{low:g}", f"{high:g}")
    return number


def read_threshold(value: object) -> float | None:
    """The threshold, 0 to 1, or None."""
    return read_number(value, "threshold", 0, 1)


def read_count(value: object, name: str, default: int, high: int) -> int:
    """A whole number from 1 to `high`; `default` when it was left empty."""
    number = read_number(value, name, 1, high)
    if number is None:
        return default
    if number != int(number):
        raise invalid_setting(name, value, "1", str(high))
    return int(number)


def read_votes(value: object) -> int:
    """1, 3 or 5; 1 when it was left empty."""
    votes = read_count(value, "votes", 1, max(VOTES))
    if votes not in VOTES:
        raise invalid_setting("votes", value, "1", "5")
    return votes


def read_depth(value: object) -> Depth:
    """economy, standard or careful; standard when it was left empty."""
    if value in DEPTHS:
        return value
    if value is None or value == "":
        return "standard"
    raise invalid_setting("depth", value, "economy", "careful")


def read_choice(value: object, name: str, choices: Sequence[str]) -> str:
    """One of the choices; the first when it was left empty.

    Raises:
        EvaluationError: invalid_setting.
    """
    if value is None or value == "":
        return choices[0]
    if isinstance(value, str) and value in choices:
        return value
    raise invalid_setting(name, value, choices[0], choices[-1])


def invalid_setting(name: str, value: object, low: str, high: str) -> EvaluationError:
    """The error for a setting that can't be `value`; what is no text and no number is not shown."""
    shown = str(value)[:40] if isinstance(value, (str, int, float)) else "…"
    return EvaluationError(Reason.INVALID_SETTING, field=name, value=shown, low=low, high=high)
