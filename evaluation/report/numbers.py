"""How numbers are shown. Scores keep full precision everywhere else."""

import math
from collections.abc import Callable


def score_text(score: float) -> str:
    """Two decimals, rounded down below 1 so that only a perfect score shows as 1.00, and up above 0 likewise.

    >>> score_text(0.999), score_text(1.0), score_text(0.001), score_text(2 / 3)
    ('0.99', '1.00', '0.01', '0.67')
    """
    rounded = round(score, 2)
    if rounded >= 1.0 > score:
        rounded = 0.99
    if rounded <= 0.0 < score:
        rounded = 0.01
    return f"{rounded:.2f}"


def money(amount: float, currency: str) -> str:
    """A price with two significant digits, and its sign where that is common.

    >>> money(0.00213, "USD"), money(1.5, "USD"), money(0.02, "RMB")
    ('$0.0021', '$1.50', '0.020 RMB')
    """
    digits = max(2, 1 - math.floor(math.log10(amount))) if amount > 0 else 2
    text = f"{amount:.{digits}f}"
    return f"${text}" if currency == "USD" else f"{text} {currency}"


def score_against(score: float, threshold: float) -> str:
    """The score with two decimals, or as many more as it takes to show on which side of the threshold it lies.

    >>> score_against(0.58, 0.7), score_against(0.6961, 0.7)
    ('0.58', '0.696')
    """
    text, digits = score_text(score), 2
    while score < threshold <= float(text) and digits < 6:
        digits += 1
        text = f"{score:.{digits}f}"
    return text


def difference_text(difference: float) -> str:
    """Two decimals with a sign; a difference too small for them shows none.

    >>> difference_text(0.125), difference_text(-0.3), difference_text(-0.001)
    ('+0.12', '−0.30', '±0.00')
    """
    text = f"{difference:+.2f}"
    return "±0.00" if text in {"+0.00", "-0.00"} else text.replace("-", "\u2212")


def interval_text(low: float, high: float, text: Callable[[float], str] = score_text) -> str:
    """Both ends with a dash between them; with a space around it where the ends have signs."""
    dash = "–" if text is score_text else " – "
    return f"{text(low)}{dash}{text(high)}"
