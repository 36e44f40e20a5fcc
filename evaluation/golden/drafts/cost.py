"""What drafting will cost, told before anything is asked."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from evaluation.golden.drafts.drafting import CALLS_EACH
from evaluation.golden.drafts.passages import Passage
from evaluation.judging.prompts import load_prompt

# Of the drafts of a capable judge about a third are thrown away; of a small one's half and more.
USUAL_TRIES, MANY_TRIES = 1.0, 2.5
# A Japanese or Chinese character is about a token; other texts have about four characters to one.
_CJK = r"[\u3041-\u30ff\u3400-\u9fff]"
_CHARACTERS_PER_TOKEN = 4
_REPLY_TOKENS = 150


@dataclass(frozen=True)
class Estimate:
    """Rough figures: judge calls from `low` when every draft holds to `high`; tokens in between."""

    low: int
    high: int
    tokens: int


def estimate(count: int, passages: Sequence[Passage]) -> Estimate:
    """The cost of `count` drafts from the passages, which must be some."""
    language = passages[0].language
    prompts = sum(tokens_of(load_prompt(f"draft.{name}", language).system) for name in ("fact", "clear", "check"))
    passage = sum(tokens_of(one.text) for one in passages) / len(passages)
    each = prompts + passage + CALLS_EACH * _REPLY_TOKENS
    low, high = ceil(CALLS_EACH * count * USUAL_TRIES), ceil(CALLS_EACH * count * MANY_TRIES)
    tries = (USUAL_TRIES + MANY_TRIES) / 2
    return Estimate(low, high, max(100, int(round(count * tries * each, -2))))


def tokens_of(text: str) -> float:
    """About how many tokens a text is."""
    cjk = len(re.findall(_CJK, text))
    return cjk + (len(text) - cjk) / _CHARACTERS_PER_TOKEN
