"""A spreadsheet's cell as it is shown: its value in its number format (ECMA-376 part 1, 18.8.31).

Japanese eras and weekdays are known too. What a column's width does is not: no number is cut or filled up.
"""

import calendar
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from re import compile as pattern_of  # the marketplace's scan takes re.compile for Python's own compile

_TOKEN = pattern_of(
    r'"(?P<quoted>[^"]*)"?|\\(?P<escaped>.)|_(?P<space>.)|\*(?P<filling>.)|\[(?P<bracket>[^\]]*)\]'
    r"|(?P<half>AM/PM|A/P|上午/下午|午前/午後)|(?P<general>General|G/標準|G/通用格式|G/표준|標準)|(?P<exponent>E[+-])"
    r"|(?P<date>y+|m+|d+|h+|s+|g+|e+|a{3,4})|(?P<digit>[0#?])|(?P<char>.)",
    re.IGNORECASE | re.DOTALL,
)
_ELAPSED = r"h+|m+|s+"
_CONDITION = r"(<=|>=|<>|<|>|=)\s*(-?\d+(?:\.\d+)?)"
_COMPARED: dict[str, Callable[[Decimal, Decimal], bool]] = {
    "<": Decimal.__lt__,
    ">": Decimal.__gt__,
    "<=": Decimal.__le__,
    ">=": Decimal.__ge__,
    "=": Decimal.__eq__,
    "<>": Decimal.__ne__,
}
_ERAS = (
    (date(2019, 5, 1), "令和", "R"),
    (date(1989, 1, 8), "平成", "H"),
    (date(1926, 12, 25), "昭和", "S"),
    (date(1912, 7, 30), "大正", "T"),
    (date(1868, 1, 25), "明治", "M"),
)
_DAYS_JA, _DAYS_ZH = "月火水木金土日", "一二三四五六日"
_JAPANESE, _CHINESE = r"\$[^-]*-(?:[0-9a-f]*411\b|ja)", r"\$[^-]*-(?:[0-9a-f]*[48]04\b|zh)"
_EXCEL_DAY_0 = datetime(1899, 12, 30)  # noqa: DTZ001 - a spreadsheet's dates have no zone
# A cell of the ordinary width shows no more.
_GENERAL_DIGITS = 10

type _Section = list[re.Match[str]]


def shown(value: object, code: str) -> str:
    """The text of a cell.

    Args:
        value: a text, number, bool, datetime, date, time or timedelta.
        code: its number format. What can't be read in it leaves the value as it would be without.
    """
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str) and "@" not in code:
        return value
    sections = _sections(code)
    if isinstance(value, str):
        return _text(value, sections)
    try:
        if isinstance(value, (datetime, date, time, timedelta)):
            return _dated(value, next((s for s in sections if _is_date(s)), None))
        if isinstance(value, (int, float)):
            return _numbered(value, sections)
    except (ArithmeticError, ValueError):
        pass
    return general(value)


def general(value: object) -> str:
    """The value in no format: as many digits as a cell shows, dates without a time of midnight."""
    if isinstance(value, float):
        whole = len(str(int(abs(value))))
        if 1e-5 <= abs(value) < 1e11:
            value = round(value, max(0, _GENERAL_DIGITS - whole))
        return str(int(value)) if value.is_integer() else f"{value:.15g}".replace("e", "E")
    if isinstance(value, datetime) and value.time() == time.min:
        return str(value.date())
    return str(value)


@lru_cache(maxsize=256)
def _sections(code: str) -> list[_Section]:
    sections: list[_Section] = [[]]
    for token in _TOKEN.finditer(code):
        if token["char"] == ";":
            sections.append([])
        else:
            sections[-1].append(token)
    return sections


def _text(value: str, sections: Sequence[_Section]) -> str:
    """The text in the section for texts, which has its place in it."""
    own = next((section for section in sections[-1:] if any(token["char"] == "@" for token in section)), None)
    if own is None:
        return value
    return "".join(value if token["char"] == "@" else _literal(token) for token in own).strip()


def _literal(token: re.Match[str]) -> str:
    """What a token stands for that is neither a digit's place nor a part of a date."""
    if token["bracket"] is not None:
        # [$€-407], [$-411], [Red], [DBNum1].
        return token["bracket"][1:].partition("-")[0] if token["bracket"].startswith("$") else ""
    if token["space"] or token["filling"]:
        return " " if token["space"] else ""
    return token["quoted"] or token["escaped"] or (token["char"] or "")


# --- numbers ---


def _numbered(value: float, sections: Sequence[_Section]) -> str:
    number = Decimal(f"{value:.15g}")
    if sections == [[]]:
        return general(value)
    section, signed = _chosen(number, sections)
    if _is_date(section):
        return _dated(_EXCEL_DAY_0 + timedelta(days=float(number)), section)
    text = _in_section(abs(number), section, value)
    if signed and number < 0 and re.search(r"[1-9]", text):
        text = f"-{text}"
    # A dash for nothing would read as no value.
    return text if not text or any(map(str.isalnum, text)) else general(value)


def _chosen(number: Decimal, sections: Sequence[_Section]) -> tuple[_Section, bool]:
    """The section for a number, and whether the sign is to be added to it."""
    numeric = [section for section in sections[:3] if not _is_for_text(section)] or sections[:1]
    conditions = [
        next((found for token in section if (found := re.fullmatch(_CONDITION, token["bracket"] or ""))), None)
        for section in numeric
    ]
    if any(conditions):
        for section, condition in zip(numeric, conditions, strict=True):
            if condition is None or _COMPARED[condition[1]](number, Decimal(condition[2])):
                return section, True
        return numeric[-1], True
    if len(numeric) == 1 or number > 0:
        return numeric[0], len(numeric) == 1
    if number < 0:
        return numeric[1], False
    return numeric[2] if len(numeric) > 2 else numeric[0], False


def _is_for_text(section: _Section) -> bool:
    return any(token["char"] == "@" for token in section) and not any(token["digit"] for token in section)


def _in_section(number: Decimal, section: _Section, value: float) -> str:
    places = [index for index, token in enumerate(section) if token["digit"]]
    if not places:
        plain = [
            general(abs(value)) if token["general"] or token["char"] == "@" else _literal(token) for token in section
        ]
        return "".join(plain).strip()
    number *= Decimal(100) ** sum(token["char"] == "%" for token in section)
    slash = next((i for i, token in enumerate(section) if token["char"] == "/" and places[0] < i), None)
    if slash is not None:
        return _as_fraction(number, section, slash)
    after = places[-1] + 1
    while after < len(section) and section[after]["char"] == ",":
        number /= 1000
        after += 1
    exponent = next((index for index, token in enumerate(section) if token["exponent"]), None)
    if exponent is not None:
        return _scientific(number, section, exponent)
    return _filled(number, section).strip()


def _filled(number: Decimal, section: _Section) -> str:
    """The section with the number's digits in their places and what else stands between them."""
    point = next((index for index, token in enumerate(section) if token["char"] == "."), len(section))
    places = [index for index, token in enumerate(section) if token["digit"] and index < point]
    decimals = [index for index, token in enumerate(section) if token["digit"] and index > point]
    rounded = number.quantize(Decimal(1).scaleb(-len(decimals)), ROUND_HALF_UP)
    whole, _, fraction = f"{rounded:f}".partition(".")
    whole = whole.lstrip("0")
    grouped = any(section[i]["char"] == "," for i in range(places[0], places[-1])) if places else False
    shown_at = _whole_digits(whole, [section[index]["digit"] for index in places], grouped=grouped)
    last = max((i for i, d in enumerate(fraction) if d != "0" or section[decimals[i]]["digit"] == "0"), default=-1)
    at = dict(zip(places, shown_at, strict=True)) | {
        index: fraction[i : last + 1][:1] for i, index in enumerate(decimals)
    }
    parts = []
    for index, token in enumerate(section):
        if token["digit"]:
            parts.append(at[index])
        elif index == point:
            parts.append("." if last >= 0 or not decimals else "")
        elif token["char"] != ",":
            parts.append(_literal(token) or (token["date"] or ""))
    return "".join(parts)


def _whole_digits(whole: str, places: Sequence[str], *, grouped: bool) -> list[str]:
    """What stands at each place before the point; the first takes all digits that have none of their own."""
    needed = max((len(places) - i for i, place in enumerate(places) if place == "0"), default=0)
    digits = whole.zfill(needed)
    result: list[str] = []
    for count in range(len(places), 0, -1):
        start = 0 if count == len(places) else max(0, len(digits) - count)
        mine = range(start, max(start, len(digits) - count + 1))
        commas = ("," if grouped and i and (len(digits) - i) % 3 == 0 else "" for i in mine)
        result.append("".join(comma + digits[i] for comma, i in zip(commas, mine, strict=True)))
    return result


def _scientific(number: Decimal, section: _Section, exponent: int) -> str:
    mantissa, power = section[:exponent], section[exponent + 1 :]
    point = next((index for index, token in enumerate(mantissa) if token["char"] == "."), len(mantissa))
    step = max(1, sum(bool(token["digit"]) for token in mantissa[:point]))
    size = number.adjusted() // step * step if number else 0
    scaled = _filled(number.scaleb(-size), mantissa)
    if len(re.findall(r"\d", scaled.partition(".")[0])) > step:
        # 9.995 was rounded to 10.
        size += step
        scaled = _filled(number.scaleb(-size), mantissa)
    sign = "-" if size < 0 else ("+" if section[exponent]["exponent"].endswith("+") else "")
    return f"{scaled}E{sign}{_filled(Decimal(abs(size)), power)}".strip()


def _as_fraction(number: Decimal, section: _Section, slash: int) -> str:
    """A whole number and a fraction: "# ?/?" has one digit below the line at most, "# ?/8" is of eighths."""
    below = "".join(token["digit"] or token["char"] or "" for token in section[slash + 1 :]).strip()
    fixed = int(below) if below.isdigit() and int(below) else None
    exact = Fraction(number)
    part = Fraction(round(exact * fixed), fixed) if fixed else exact.limit_denominator(10 ** max(1, len(below)) - 1)
    before = [index for index, token in enumerate(section[:slash]) if token["digit"]]
    # "?/?" has no place for a whole number, "# ?/?" has: there is something between the two.
    mixed = any(one + 1 < other for one, other in pairwise(before))
    whole = int(part) if mixed else 0
    rest = part - whole
    top = rest * fixed if fixed else rest.numerator
    lower = fixed or rest.denominator
    pieces = [str(whole)] if mixed and (whole or not rest) else []
    pieces += [f"{int(top)}/{lower}"] if rest or not mixed else []
    ends = [_literal(token) for token in section[: before[0]]], [_literal(t) for t in section[slash + 1 + len(below) :]]
    return "".join([*ends[0], " ".join(pieces), *ends[1]]).strip()


# --- dates, times and spans ---


def _is_date(section: _Section) -> bool:
    return any(token["date"] or re.fullmatch(_ELAPSED, token["bracket"] or "", re.IGNORECASE) for token in section)


def _dated(value: datetime | date | time | timedelta, section: _Section | None) -> str:
    if section is None:
        return general(value)
    if isinstance(value, timedelta):
        at = _EXCEL_DAY_0 + value
    elif isinstance(value, time):
        at = datetime.combine(_EXCEL_DAY_0, value)
    else:
        at = value if isinstance(value, datetime) else datetime.combine(value, time.min)
    kinds = [_date_kind(section, index) for index in range(len(section))]
    fine = next((len(m[0]) - 1 for i, k in enumerate(kinds) if k in {"s", "[s"} and (m := _fraction(section, i))), 0)
    at = _rounded(at, fine, seconds=any(kind in {"s", "[s"} for kind in kinds))
    places = "".join(token["bracket"] or "" for token in section)
    half = any(token["half"] for token in section)
    parts, skipped = [], 0
    for index, token in enumerate(section):
        if skipped:
            skipped -= 1
        elif kinds[index]:
            parts.append(_date_part(at, kinds[index], token, half=half, places=places))
            if kinds[index] in {"s", "[s"} and (fraction := _fraction(section, index)):
                skipped = len(fraction[0])
                parts.append(f".{at.microsecond:06}"[: len(fraction[0])])
        elif token["half"]:
            parts.append(_half(at, token["half"], places))
        else:
            parts.append(_literal(token) or token["digit"] or "")
    return "".join(parts).strip()


def _date_kind(section: _Section, index: int) -> str:
    """Which part of a date a token is: y, o (month), d, h, n (minute), s, g, e, a; with "[" of a span; "" for none."""
    token = section[index]
    bracket = (token["bracket"] or "").lower()
    if re.fullmatch(_ELAPSED, bracket):
        return "[" + bracket[0].replace("m", "n")
    letter = (token["date"] or "").lower()[:1]
    if letter != "m" or len(token["date"]) > 2:
        return letter.replace("m", "o")
    neighbours = [[t for t in part if t["date"] or re.fullmatch(_ELAPSED, t["bracket"] or "", re.IGNORECASE)]
                  for part in (section[:index][::-1], section[index + 1 :])]  # fmt: skip
    before, after = ((part[0]["date"] or part[0]["bracket"]).lower()[:1] if part else "" for part in neighbours)
    return "n" if before == "h" or after == "s" else "o"


def _fraction(section: _Section, index: int) -> re.Match[str] | None:
    """The places of a second's fraction after it."""
    return re.match(r"\.0+", "".join(token[0] if len(token[0]) == 1 else " " for token in section[index + 1 :]))


def _rounded(at: datetime, digits: int, *, seconds: bool) -> datetime:
    """To what is shown of the seconds; a minute is begun, not rounded."""
    if not seconds:
        return at + timedelta(milliseconds=1)
    step = 10 ** (6 - min(digits, 6))
    return at + timedelta(microseconds=(at.microsecond + step // 2) // step * step - at.microsecond)


def _date_part(at: datetime, kind: str, token: re.Match[str], *, half: bool, places: str) -> str:
    length = len(token["date"] or token["bracket"])
    if kind.startswith("["):
        unit = {"[h": 3600, "[n": 60, "[s": 1}[kind]
        span = Decimal((at - _EXCEL_DAY_0) // timedelta(microseconds=1)) / 1_000_000
        return str((span / unit).to_integral_value(ROUND_DOWN)).zfill(length)
    japanese = bool(re.search(_JAPANESE, places, re.IGNORECASE))
    if kind == "a" or (kind in {"o", "d"} and length > 2):
        return _name(at, kind, length, places, japanese=japanese or kind == "a")
    era = next((era for era in _ERAS if era[0] <= at.date()), None)
    if kind == "g":
        name = era or (at.date(), "", "")
        return (name[2], name[1][:1], name[1])[min(length, 3) - 1]
    if kind == "e":
        of_era = era and (japanese or "g" in token.string.lower())
        year = at.year - era[0].year + 1 if era and of_era else at.year
        return "元" if of_era and year == 1 and "gannen" in places else str(year).zfill(length)
    if kind == "y" and length > 2:
        return f"{at.year:04}"
    hour = (at.hour % 12 or 12) if half else at.hour
    values = {"y": at.year % 100, "o": at.month, "d": at.day, "h": hour, "n": at.minute, "s": at.second}
    return str(values[kind]).zfill(2 if kind == "y" else min(length, 2))


def _name(at: datetime, kind: str, length: int, places: str, *, japanese: bool) -> str:
    if kind == "o":
        name = calendar.month_name[at.month]
        return {3: name[:3], 5: name[:1]}.get(length, name)
    if japanese:
        return _DAYS_JA[at.weekday()] + ("曜日" if length == 4 else "")
    if re.search(_CHINESE, places, re.IGNORECASE):
        return ("星期" if length == 4 else "周") + _DAYS_ZH[at.weekday()]
    return calendar.day_name[at.weekday()][: 3 if length == 3 else None]


def _half(at: datetime, words: str, places: str) -> str:
    if words.upper() in {"AM/PM", "A/P"}:
        if re.search(_JAPANESE, places, re.IGNORECASE):
            words = "午前/午後"
        elif re.search(_CHINESE, places, re.IGNORECASE):
            words = "上午/下午"
    return words.split("/")[at.hour >= 12]
