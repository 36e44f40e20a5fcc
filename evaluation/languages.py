"""Which language a result is written in."""

import re
from collections.abc import Mapping
from typing import Literal

Language = Literal["ja", "en", "zh"]
LANGUAGES: tuple[Language, ...] = ("ja", "en", "zh")
# As the lang attribute of a page has them.
LANGUAGE_TAGS: Mapping[Language, str] = {"ja": "ja", "en": "en", "zh": "zh-Hans"}

# Without the middle dot, which Chinese puts into foreign names.
_KANA = r"[\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\uff66-\uff9f]"
_HAN = r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"
_LETTER = r"[^\W\d_]"


def choose_language(setting: object, *texts: str) -> Language:
    """The language of the setting, or with "auto" (or anything unknown) that of the texts; English without any."""
    return setting if setting in LANGUAGES else language_of_texts(*texts) or "en"


def language_of_texts(*texts: str) -> Language | None:
    """The language of the texts' script; None when there is no letter in them.

    The first text that has letters decides: kana is Japanese, characters that Japanese does not write are Chinese,
    other scripts are English. Chinese characters alone may be either (「有給休暇日数」), so the texts after it are
    looked at for kana before it counts as Chinese.
    """
    samples = [text[:4000] for text in texts if re.search(_LETTER, text[:4000])]
    if not samples:
        return None
    if re.search(_KANA, samples[0]):
        return "ja"
    if not re.search(_HAN, samples[0]):
        return "en"
    if _has_chinese_only(samples[0]):
        return "zh"
    return "ja" if any(re.search(_KANA, text) for text in samples[1:]) else "zh"


def _has_chinese_only(text: str) -> bool:
    """Whether a character stands in it that JIS X 0213 lacks, as it does most simplified ones (这, 么, 带)."""
    try:
        "".join(re.findall(_HAN, text)).encode("euc_jis_2004")
    except UnicodeEncodeError:
        return True
    return False
