"""The text in a file's bytes: UTF, else the older encoding in which it reads like a language."""

import contextlib
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping

import chardet

from evaluation.golden.headers import header_kind

# The longer mark first: one begins with the other.
_MARKS = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
    (b"\xef\xbb\xbf", "utf-8-sig"),
)
# What spreadsheet programs write where it is not Unicode.
_OLDER = (
    *("cp932", "euc-jp", "gb18030", "big5", "cp949", "iso8859-2", "koi8-r", "mac-roman", "tis-620"),
    *(f"windows-{number}" for number in range(1250, 1259)),
)
# A few characters tell little of a language; then it counts whether they are everyday ones: in the older and smaller
# set of the same country, and of those that its texts are made of.
_EVERYDAY = {
    "cp932": ("shift_jis", r"[\u3000-\u30ff\u4e00-\u9fff\uff01-\uff5d]"),
    "gb18030": ("gb2312", r"[\u3000-\u3015\u4e00-\u9fff\uff01-\uff5d]"),
    "cp949": ("euc_kr", r"[\uac00-\ud7a3]"),
    "big5hkscs": ("big5", r"[\u3000-\u3015\u4e00-\u9fff\uff01-\uff5d]"),
    "euc_jis_2004": ("shift_jis", r"[\u3000-\u30ff\u4e00-\u9fff\uff01-\uff5d]"),
}
_LITTLE, _CLEAR_SHARE, _LEAST_SHARE = 0.06, 0.7, 0.4
# Lines and blocks of old tables: Russian and Western letters look so in the wrong encoding.
_BOXES, _MOST_BOXES = r"[\u2500-\u259f]", 0.05
# Beyond ASCII not just single ones beside Latin letters, which would be accents and curly apostrophes.
_IN_PAIRS = rb"[\x80-\xff]{2}|(?<![A-Za-z])[\x80-\xff](?![A-Za-z])|[\x80-\xff].[\x80-\xff]"
# Western words have a few accents; a row of accents and symbols is another script in the wrong encoding.
_ACCENTS_IN_A_ROW = r"[\u0080-\u024f\u02b0-\u02ff\u2010-\u2bff\ufb00-\ufb06]{4,}"
_FEWEST_DIFFERENT = 3
# Nor do symbols stand inside words.
_SYMBOLS = r"\u00a0-\u00a9\u00ab-\u00b4\u00b6\u00b8\u00b9\u00bb-\u00bf\u201a-\u2022\u2030-\u2bff"
_SYMBOL_IN_A_WORD = rf"(?<=[^\W\d_])[{_SYMBOLS}](?=[^\W\d_])"
_MOST_SYMBOLS = 0.1
# In the name of a column stand letters and brackets, no currency and no quotation marks of the West.
_NO_NAME = r"[^\w\s\x00-\x7f\u3000-\u30ff\uff00-\uffef]"
_CONTROL = r"[\x00-\x08\x0e-\x1f\x7f]"
_FIRST_LINES = 40
# Enough of a text to tell whether it reads like one.
_SAMPLE = 20_000
_SCRIPTS = {
    "eastern": r"[\u3041-\u30ff\uff66-\uff9f]",
    "han": r"[\u3400-\u9fff々]",
    "hangul": r"[\uac00-\ud7a3]",
    "cyrillic": r"[\u0400-\u04ff]",
    "greek": r"[\u0370-\u03ff]",
    "thai": r"[\u0e00-\u0e7f]",
    "hebrew": r"[\u0590-\u05ff]",
    "arabic": r"[\u0600-\u06ff]",
    "latin": r"[\u00c0-\u024f\u1e00-\u1eff]",
}


def decode(data: bytes) -> str | None:
    """The text, None when it is none in any encoding that is known."""
    if not data:
        return ""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _read(data, encoding)
    if b"\x1b$" in data:
        return _read(data, "iso2022_jp_ext")
    if b"\x00" in data:
        unmarked = [text for encoding in ("utf-16-le", "utf-16-be") if (text := _read(data, encoding))]
        # Commas and line ends are among the first 128 characters only when the halves are in order.
        best = max(unmarked, key=lambda text: sum(map(str.isascii, text[:_SAMPLE])), default=None)
        return best if best is not None and _reads_well(best) else None
    return _read(data, "utf-8") or (None if _is_damaged(data) else _in_an_older_encoding(data))


def _is_damaged(data: bytes) -> bool:
    """Whether it is UTF-8 but for a few bytes: in an older encoding hardly anything looks like it."""
    text = data.decode("utf-8", "replace")
    wrong = text.count("\ufffd")
    return len(re.findall(r"[^\x00-\x7f\ufffd]", text)) > wrong


def _read(data: bytes, encoding: str) -> str | None:
    """The text in that encoding; None when it is none, or has characters that no text has."""
    with contextlib.suppress(UnicodeDecodeError):
        text = data.decode(encoding)
        return None if re.search(_CONTROL, text) else text
    return None


def _in_an_older_encoding(data: bytes) -> str | None:
    """The text in the encoding in which it has column names that are known, else in the one that is likeliest."""
    guesses = chardet.detect_all(data, ignore_threshold=True, compat_names=False, include_encodings=_OLDER)
    likely = {str(guess["encoding"]): guess["confidence"] for guess in guesses if guess["encoding"]}
    named = {encoding: names for encoding in {**likely, **dict.fromkeys(_OLDER)} if (names := _names(data, encoding))}
    if named:
        likely = {name: likely.get(name, 0.0) for name in named if named[name] == max(named.values())}
    elif max(likely.values(), default=0.0) < _LITTLE and (everyday := _everyday(data, likely)):
        likely = {everyday: 1.0}
    for encoding in sorted(likely, key=lambda name: -likely[name]):
        text = _read(data, encoding)
        if text is None or (encoding not in _EVERYDAY and _has_symbols_for_letters(text)):
            continue
        if any(unicodedata.category(char) in {"Cc", "Co", "Cn"} for char in set(text) - set("\r\n\t")):
            continue
        if named or (_reads_well(text) and _share(text, encoding) >= _LEAST_SHARE):
            return text
    return None


def _names(data: bytes, encoding: str) -> int:
    """How many column names are recognised in one of the first lines, of those that say anything about an encoding."""
    with contextlib.suppress(UnicodeDecodeError):
        return max(map(_known, data.decode(encoding).lstrip().split("\n", _FIRST_LINES)[:_FIRST_LINES]))
    return 0


def _known(line: str) -> int:
    cells = [
        cell for cell in re.split(r"[\t,;，|]", line[:1000]) if not cell.isascii() and len(re.findall(r"\w", cell)) > 1
    ]
    return sum(header_kind(cell) is not None for cell in cells if not re.search(_NO_NAME, cell))


def _everyday(data: bytes, likely: Mapping[str, float]) -> str:
    """The encoding of Eastern Asia in which most characters are everyday ones, "" when they are in none."""
    if not re.search(_IN_PAIRS, data):
        return ""
    shares = {}
    for encoding in _EVERYDAY:
        if (text := _read(data, encoding)) and (share := _share(text, encoding)) >= _CLEAR_SHARE:
            shares[encoding] = share
    return max(shares, key=lambda encoding: (likely.get(encoding, 0.0), shares[encoding]), default="")


def _share(text: str, encoding: str) -> float:
    """How many of the characters beyond ASCII are everyday ones, as a share; 1 for an encoding of the West."""
    if encoding not in _EVERYDAY:
        return 1.0
    smaller, letters = _EVERYDAY[encoding]
    beyond = _beyond_ascii(text)
    common = "".join(re.findall(letters, beyond)).encode(smaller, "ignore").decode(smaller)
    return len(common) / max(1, len(beyond))


def _beyond_ascii(text: str) -> str:
    return re.sub(r"[\x00-\x7f]", "", text)[:_SAMPLE]


def _has_symbols_for_letters(text: str) -> bool:
    """Whether accents and symbols stand where a language written with an alphabet has letters."""
    rows = re.findall(_ACCENTS_IN_A_ROW, text[:_SAMPLE])
    inside = len(re.findall(_SYMBOL_IN_A_WORD, text[:_SAMPLE]))
    many = inside > _MOST_SYMBOLS * len(_beyond_ascii(text))
    return many or any(len(set(row)) >= _FEWEST_DIFFERENT for row in rows)


def _reads_well(text: str) -> bool:
    """Whether the characters of a text are those of one language, with what may stand beside them."""
    sample = _beyond_ascii(text)
    counts = Counter({script: len(re.findall(pattern, sample)) for script, pattern in _SCRIPTS.items()})
    # Kana and Chinese characters are one script in Japanese; in Korean the latter are rare.
    main = counts["eastern"] + counts["han"], counts["hangul"], *(counts[name] for name in list(_SCRIPTS)[3:])
    mixed = sum(count > counts.total() / 10 for count in main) > 1
    accents = len(re.findall(_SCRIPTS["latin"], text[:_SAMPLE])) > 0.4 * len(re.findall(r"[^\W\d_]", text[:_SAMPLE]))
    return not mixed and not accents and len(re.findall(_BOXES, sample)) <= _MOST_BOXES * len(sample)
