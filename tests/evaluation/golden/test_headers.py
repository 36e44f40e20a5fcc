"""Column names as people write them, in many languages."""

import pytest

from evaluation.golden.headers import columns_of, header_kind

NAMES = {
    "question": """
        質問|質問文|質問（必須）|質問内容|ご質問内容|お問い合わせ内容|問い合わせ|問合せ内容|問題|設問文
        想定質問|テスト質問|質問例|評価用の質問
        ユーザーからの質問|お客様からのお問い合わせ|社員からの質問|質問（ユーザー入力）|入力|入力文
        プロンプト|よくある質問
        【質問】|*質問|質問＊|質問：|■質問|❓質問|1.質問|①質問|Q1. 質問|質問 (必須)|質問/Question
        質問 ・ Question|※質問| 質　問
        Question|QUESTION|questions|User Question|user_input|userInput|test_query|Search Query
        Customer query|The question|Q|prompt|input
        query|inputs.question|input.question|example.input|inputs|Question *|Question (required)|instruction
        User message
        问题|提问|用户问题|标准问题|测试问题|题目|问题（必填）|問題描述|使用者問題|用户输入
        질문|질문(필수)|사용자 질문|자주 묻는 질문|질문 내용
        Frage|Fragen|Question utilisateur|Pregunta|Pregunta del usuario|Domanda|Pergunta|Вопрос|Vraag
        Pytanie|Otázka|คำถาม
    """,
    "reference": """
        参照|参照（正解）|正解|解答|模範解答|期待される回答|期待する回答|期待出力|期待結果|期待値|正答
        想定回答|想定される回答|正しい答え|理想的な回答
        正解データ|回答例|解答例|回答の例|参考回答|模範回答例|見本回答|お手本|人手回答|回答（正解）
        正解（回答）|答え（正解）|正解/Answer|期待回答内容
        回答|回答（必須）|答え|質問への回答|アンサー|期待アウトプット
        reference|Reference Answer|ground_truth|Ground Truth|groundTruth|expected_output|Expected answer
        expectedOutput|ideal_response
        correct_answer|gold_answer|golden answer|target_answer|Answer (expected)|reference_output
        human_answer|Sample answer|expected
        answer|outputs.answer|output|response|completion|A
        参考答案|参考答案（必填）|标准答案|正确答案|预期输出|期望回答|答案|參考答案|標準答案|預期答案|正確答案
        정답|예상 답변|모범 답안|기대 답변|답변
        Antwort|erwartete Antwort|Musterlösung|Réponse|Réponse attendue|REPONSE ATTENDUE|Respuesta
        Respuesta esperada|Risposta|Resposta
        Ответ|правильный ответ|Odpowiedź|Odpověď|คำตอบ
    """,
    # What a bot said is no reference.
    "answer": """
        AI回答|AIの回答|ボットの回答|チャットボット回答|実際の回答|実際の出力|生成された回答|回答（AI）
        actual_output|generated_answer|model_answer
        bot response|predicted answer|prediction|模型回答|实际输出|機器人回答
    """,
    "documents": "文書|参照文書|出典|根拠文書|見つかるべき文書|documents|Source documents|参考文档|来源|문서|Quelle",
    "category": "カテゴリ|カテゴリー|分類|質問カテゴリ|category|Question type|类别|問題類型|카테고리|Kategorie",
    "contexts": "contexts|retrieved_contexts|検索結果|检索结果",
}
UNKNOWN = """
        No.|No|#|1|2|項目|内容|備考|担当|部署|質問ID|質問番号|質問者|質問日|回答者|回答日|回答数|更新日|id
        created_at|metadata|expected_json_format
        Q1|R1|10日|有給は何日ですか？|category_id|question_id|answer_id|inputs.chat_history|参照URL
        2026年4月1日|会社|日付|결과|Name|結果|テスト結果
    Plan A|label|value|テスト
"""


def listed(text: str) -> list[str]:
    return [name for line in text.strip().splitlines() for name in line.strip().split("|")]


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, text in NAMES.items() for name in listed(text)])
def test_a_name_is_recognised(kind: str, name: str) -> None:
    assert header_kind(name) == kind


@pytest.mark.parametrize("name", ["質問\n(必須)", "質問\n/ Question", "Question\nFrage", "質問\r\n（200字以内）"])
def test_a_name_with_a_line_break_is_recognised(name: str) -> None:
    assert header_kind(name) == "question"


@pytest.mark.parametrize(
    "name",
    ["質問 Question", "Question 質問", "question_ja", "質問_日本語", "Question-EN", "問", "お客様の質問 User query"],
)
def test_a_name_in_two_languages_or_with_its_language_is_recognised(name: str) -> None:
    assert header_kind(name) == "question"


@pytest.mark.parametrize("name", [*listed(UNKNOWN), "", " ", "？", "質問" * 40, "質問/回答", "ja"])
def test_another_name_is_not(name: str) -> None:
    assert header_kind(name) is None


@pytest.mark.parametrize(
    ("names", "question", "reference"),
    [
        ("question|answer|ground_truth", 0, 2),
        ("回答|質問|参照", 1, 2),
        ("質問|AI回答|模範解答", 0, 2),
        ("質問|回答|期待される回答", 0, 2),
        ("質問|回答|解答", 0, 2),
        ("id|input|expected_output|metadata", 1, 2),
        ("label|query|expected_json_format|ground_truth|metadata", 1, 3),
        ("instruction|input|output", 0, 2),
        ("user_input|response|retrieved_contexts|reference", 0, 3),
        ("質問|実際の回答", 0, None),
        # Beside contexts an answer is the bot's own.
        ("question|answer|contexts", 0, None),
        ("user_input|retrieved_contexts|response", 0, None),
        ("質問|回答|検索結果|正解", 0, 3),
        # A passage that somebody chose is not what a bot retrieved.
        ("question|context|answer", 0, 2),
        ("inputs.question|outputs.answer|reference_outputs.answer", 0, 2),
        ("inputs.question|inputs.answer|metadata.id", 0, 1),
        ("User Query|Expected Bot Response|Bot Response", 0, 1),
        ("質問|期待されるボットの回答|ボットの回答", 0, 1),
        ("prompt|ground_truth", 0, 1),
        ("inputs.question|outputs.answer", 0, 1),
        ("質問ID|質問|質問者|回答者|回答", 1, 4),
    ],
)
def test_of_several_columns_the_one_named_most_like_it_is_taken(
    names: str, question: int, reference: int | None
) -> None:
    columns = columns_of(names.split("|"))
    assert (columns["question"], columns["reference"]) == (question, reference)
