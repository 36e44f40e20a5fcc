"""The sentences that users read: data files texts/<language>.toml; those of a metric texts/metrics/<metric>.toml."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from evaluation.errors import Reason
from evaluation.languages import Language

# Values of a reason that name words of ours; all others are shown.
NAMES = frozenset({"field", "why"})
_FOLDER = Path(__file__).parent / "texts"


class Texts:
    """The sentences of one language, by dotted name."""

    def __init__(self, language: Language, entries: Mapping[str, Any]) -> None:
        self.language = language
        self._entries = entries

    def get(self, name: str, **values: object) -> str:
        """The text of that name with the values in its places.

        Raises:
            KeyError: no such text; every language has the same names (tested).
        """
        entry: Any = self._entries
        for key in name.split("."):
            entry = entry[key]
        return str(entry).format(**values)

    def aside(self, sentence: str, remark: str) -> str:
        """The sentence with a remark in brackets after it."""
        return sentence + self.get("aside", remark=remark)

    def of_runs(self) -> "Texts":
        """The same sentences, where some reasons are worded for a run over a table, whose user has no node at hand."""
        reasons = {**self._entries["reasons"], **self._entries["reasons_in_runs"]}
        return Texts(self.language, {**self._entries, "reasons": reasons})

    def reason(self, reason: Reason, values: Mapping[str, Any]) -> str:
        """The sentence for a reason code, with the parameter's label where it names a field; "" for no reason.

        A value `why` names a closer sentence, under the section of the reason.
        """
        if reason is Reason.NONE:
            return ""
        field = {"field": self._field(str(values["field"]))} if "field" in values else {}
        name = f"{reason.value}.{values['why']}" if "why" in values else f"reasons.{reason.value}"
        return self.get(name, **{**values, **field})

    def _field(self, name: str) -> str:
        metric = name.removesuffix("_threshold")
        if metric != name:
            return self.get("threshold_of", metric=self.get(f"metrics.{metric}"))
        return self.get(f"fields.{name}")


@cache
def load_texts(language: Language) -> Texts:
    """The texts of a language. A metric's own words stand under words.<metric>, its label under metrics.<metric>."""
    entries = _read(_FOLDER / f"{language}.toml")
    words = {path.stem: _read(path)[language] for path in sorted((_FOLDER / "metrics").glob("*.toml"))}
    labels = {metric: word["label"] for metric, word in words.items()}
    return Texts(language, {**entries, "words": words, "metrics": labels})


def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


@cache
def _refusals() -> tuple[str, ...]:
    lines = (_FOLDER / "refusals.txt").read_text(encoding="utf-8").splitlines()
    return tuple(line.casefold() for line in lines if line)


def is_refusal(reply: str) -> bool:
    """Whether a reply without JSON begins like a refusal (texts/refusals.txt, any language)."""
    beginning = reply[:400].casefold().replace("’", "'")
    return any(phrase in beginning for phrase in _refusals())
