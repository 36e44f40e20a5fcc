import pytest

from evaluation.languages import choose_language


@pytest.mark.parametrize("setting", ["ja", "en", "zh"])
def test_setting_wins_over_the_texts(setting: str) -> None:
    assert choose_language(setting, "English text", "日本語です", "这是中文") == setting


@pytest.mark.parametrize("setting", ["auto", None, "", "fr", 5, ["ja"]])
def test_anything_else_means_from_the_texts(setting: object) -> None:
    assert choose_language(setting, "有給休暇は何日ですか") == "ja"


@pytest.mark.parametrize(
    ("texts", "language"),
    [
        (["有給休暇は何日ですか"], "ja"),
        (["リモートワーク"], "ja"),
        (["ﾃﾚﾜｰｸ"], "ja"),
        (["ADSLとは"], "ja"),
        (["What is 有給休暇?"], "zh"),
        (["What is the 有給休暇?", "10日です"], "ja"),
        (["How many days?", "10日です"], "en"),
        (["年假有多少天"], "zh"),
        (["这个怎么用", "日本語です"], "zh"),
        (["約翰・史密斯"], "zh"),
        (["有給休暇日数"], "zh"),
        (["有給休暇日数", "10日", "付与されます"], "ja"),
        (["有給休暇日数", "10 days"], "zh"),
        (["𠮷野家"], "zh"),
        (["Wie viele Tage?"], "en"),
        (["몇 일입니까"], "en"),
        (["2024?", "はい"], "ja"),
        (["😀 123 !?", "", "这里"], "zh"),
        (["a" * 5000 + "は"], "en"),
        ([" " * 10 + "は"], "ja"),
        (["", "  ", "5"], "en"),
        ([], "en"),
    ],
)
def test_language_from_the_first_text_with_letters(texts: list[str], language: str) -> None:
    assert choose_language("auto", *texts) == language
