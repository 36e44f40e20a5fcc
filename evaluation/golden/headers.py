"""What the columns of a question table hold, told by their names."""

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from re import compile as pattern_of  # the marketplace's scan takes re.compile for Python's own compile
from typing import Literal

from evaluation.folding import fold

type Kind = Literal["question", "reference", "documents", "category", "answer", "contexts"]

COLUMNS: tuple[Kind, ...] = ("question", "reference", "documents", "category")
# No name of a column is longer, with all that is said beside it.
MAX_NAME_CHARACTERS = 60
_BRACKETS = r"[(\[{<【〔〈《「『](.*?)[)\]}>】〕〉》」』]"
_LANGUAGE = r"[\s_.-]+(?:ja|jp|jpn|en|eng|zh|cn|tw|ko|kr|de|fr|日本語|英語|中国語|韓国語|日文|英文|中文)$"
_NUMBERING = r"^(?:q?[0-9]{1,3}(?=[^0-9])|[a-z](?=[.)]))[\s.):、_-]*"
# Ranks: below those of the whole names.
_COMPOUND, _VAGUE = 1000, 2000
# 「質問 Question」
_BETWEEN_SCRIPTS = r"(?<=[^\x00-\x7f])\s+(?=[\x00-\x7f])|(?<=[\x00-\x7f])\s+(?=[^\x00-\x7f])"
_BETWEEN_LANGUAGES = r"\s*[/|\n・]\s*|\s+[-–—]\s+"


@dataclass(frozen=True)
class Name:
    """A recognised name of a column; of several columns of a kind the one of the lowest rank is it.

    `vague` is a name that a bot's answers may have too ("answer").
    """

    kind: Kind
    rank: int
    vague: bool = False


def header_name(cell: str) -> Name | None:
    """What a column of that name holds, None when it is not known."""
    text = unicodedata.normalize("NFKC", cell).strip()
    return _of_text(text) if 0 < len(text) <= MAX_NAME_CHARACTERS else None


def header_kind(cell: str) -> Kind | None:
    """The kind of column that has that name, None when it is not known."""
    name = header_name(cell)
    return name.kind if name else None


def columns_of(names: Sequence[str]) -> dict[Kind, int | None]:
    """Where question, reference, documents and category stand among columns of these names.

    Of the columns called just "answer" none is the reference beside contexts, which only a bot's answer has.
    """
    known = [(found, index) for index, name in enumerate(names) if (found := header_name(name))]
    with_contexts = any(name.kind == "contexts" for name, _ in known)
    places: dict[Kind, int | None] = {}
    for kind in COLUMNS:
        own = [(n.rank, i) for n, i in known if n.kind == kind and not (n.vague and with_contexts)]
        places[kind] = min(own)[1] if own else None
    return places


@lru_cache(maxsize=4096)
def _of_text(text: str) -> Name | None:
    inner = [match.strip() for match in re.findall(_BRACKETS, text, re.DOTALL)]
    outer = re.sub(_BRACKETS, " ", text, flags=re.DOTALL).strip()
    # 「質問 / Question」, "質問\nQuestion"; 「質問/回答」 is neither.
    pieces = [_of_plain(piece) for piece in re.split(_BETWEEN_LANGUAGES, outer) if piece]
    if len({piece.kind for piece in pieces if piece}) > 1:
        return None
    if whole := _of_plain(text):
        return whole
    # 「回答（正解）」, "Question (required)", 【質問】.
    found = [name for part in (outer, *inner) if (name := _of_plain(part))]
    if found:
        return min((name for name in found if name.kind == found[0].kind), key=lambda name: name.rank)
    if len(pieces) > 1:
        return pieces[0] if all(pieces) else None
    in_scripts = [_of_plain(piece) for piece in re.split(_BETWEEN_SCRIPTS, outer)]
    if len(in_scripts) > 1 and all(in_scripts):
        return in_scripts[0] if len({piece.kind for piece in in_scripts if piece}) == 1 else None
    return _of_path(re.split(r"[.:\[\]]+", outer.strip(".:[]")))


def _of_path(parts: Sequence[str]) -> Name | None:
    """What the last part of a path says ("inputs.question"), before a vague one what a clear one does."""
    last = _of_plain(parts[-1]) if len(parts) > 1 else None
    if last is None or not last.vague:
        return last
    names = [name for part in parts if (name := _of_plain(part)) and name.kind in {"reference", "answer"}]
    return next((name for name in names if not name.vague), last)


def _of_plain(text: str) -> Name | None:
    """The name as it stands, then without its numbering and remarks, and without its language."""
    plain = re.sub(_NUMBERING, "", text.casefold())
    return _of_key(_key(text)) or _of_key(_key(plain)) or _of_key(_key(re.sub(_LANGUAGE, "", plain)))


def _of_key(key: str) -> Name | None:
    if not key:
        return None
    lists = _lists()
    bare = lists.remarks.sub("", key) or key
    for kind, names in lists.whole:
        if bare in names:
            return Name(kind, names[bare])
    for rank, (kind, compound) in enumerate(lists.compounds, start=_COMPOUND):
        if compound.fullmatch(bare):
            return Name(kind, rank)
    # In the order of the list: 解答 tells more than 回答.
    vague = lists.vague.fullmatch(bare)
    place = lists.vague_ranks.get(vague["head"] if vague else bare)
    return None if place is None else Name("reference", _VAGUE + place, vague=True)


def _key(text: str) -> str:
    """The name as it is compared: folded, without symbols and without the accents of Latin letters."""
    plain = re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFKD", text))
    return "".join(char for char in fold(unicodedata.normalize("NFC", plain)) if char.isalnum())


@dataclass(frozen=True)
class _Lists:
    """headers.toml as it is used: whole names by rank, compounds by kind, and the words for any answer by rank."""

    remarks: re.Pattern[str]
    whole: Sequence[tuple[Kind, Mapping[str, int]]]
    compounds: Sequence[tuple[Kind, re.Pattern[str]]]
    vague: re.Pattern[str]
    vague_ranks: Mapping[str, int]


@cache
def _lists() -> _Lists:
    raw = tomllib.loads(Path(__file__).with_name("headers.toml").read_text(encoding="utf-8"))
    keys = {
        kind: {field: [_key(word) for word in words] for field, words in lists.items()} for kind, lists in raw.items()
    }
    answer, reference, question = keys["answer"], keys["reference"], keys["question"]
    heads, after = reference["heads"], [*reference["after"], *reference["after_right"]]
    right = [*heads, *reference["heads_of_right"], *reference["names"]]
    common = [*question["before"], *question["heads"]]
    compounds: list[tuple[Kind, str]] = [
        ("answer", f"{_any(answer['before'])}+{_any(heads)}{_any(after)}*"),
        ("answer", f"{_any(heads)}{_any(after)}*{_any(answer['after'])}"),
        # 「期待されるボットの回答」 is no bot's answer yet.
        ("reference", f"{_any(reference['before'])}+{_any(answer['before'])}*{_any(right)}{_any(after)}*"),
        ("reference", f"{_any(common)}*{_any(heads)}{_any(after)}*{_any(reference['after_right'])}"),
        ("reference", f"{_any(reference['names'])}{_any(after)}+"),
        ("question", f"{_any(question['before'])}*{_any(question['heads'])}{_any(question['after'])}*"),
    ]
    vague = f"{_any([*common, 'への'])}*(?P<head>{_any(heads)}){_any(reference['after'])}*"
    kinds: tuple[Kind, ...] = ("answer", "contexts", "question", "reference", "documents", "category")
    return _Lists(
        pattern_of(f"^{_any(keys['remarks']['words'])}+|{_any(keys['remarks']['words'])}+$"),
        [(kind, {key: rank for rank, key in reversed(list(enumerate(keys[kind]["names"])))}) for kind in kinds],
        [(kind, pattern_of(pattern)) for kind, pattern in compounds],
        pattern_of(vague),
        {head: rank for rank, head in reversed(list(enumerate([*heads, *reference["alone"]])))},
    )


def _any(words: Iterable[str]) -> str:
    return f"(?:{'|'.join(sorted(set(words), key=len, reverse=True))})"
