import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from openpyxl import load_workbook

from devhost.chatflow import NodeProgress, choose
from devhost.daemon import PluginProcess
from devhost.demo.__main__ import TEMPLATE
from devhost.demo.models import DemoModels, SettingError, demo_models
from devhost.demo.scenes import OUTDATED_SENTENCE, SCENES
from devhost.demo.show import Waiting, fitting, framed
from devhost.demo.table import REPORT_FOLDER, TABLE, evaluate_table
from devhost.dify_side import ModelServer
from devhost.knowledge import KnowledgeBase
from evaluation.golden.table import read_table
from tests.model_server import Hang, HttpError, Request, ScriptedModelServer
from tests.tools.support import data_of

ROOT = Path(__file__).parents[2]
KNOWLEDGE = ROOT / "devhost" / "demo" / "knowledge"


def scripted(server: ScriptedModelServer) -> ScriptedModelServer:
    """The server with a judge that supports every claim, part and chunk, and writes the same question three times."""
    server.on("relevancy.questions", {"questions": [{"question": "何日ですか", "noncommittal": 0}] * 3})
    server.on("relevancy.grades", {"grades": [{"id": item, "reason": "", "grade": 3} for item in (1, 2, 3)]})
    server.on("faithfulness.statements", {"statements": ["週3日までです。"]})
    server.on("faithfulness.verdicts", {"verdicts": [{"id": 1, "reason": "", "verdict": 1}]})
    server.on("recall.parts", {"parts": [{"text": "週3日まで", "reason": "", "verdict": 1}]})
    server.on("precision.chunk", {"reason": "", "verdict": 1})
    server.on("retrieval.economy", _economy)
    server.on_chat("週3日までです。")
    return server


def _economy(request: Request) -> dict[str, object]:
    chunks = [{"id": item["id"], "reason": "", "verdict": 1} for item in data_of(request)["contexts"]]
    return {"parts": [{"text": "週3日まで", "reason": "", "verdict": 1}], "chunks": chunks}


@pytest.fixture
def judge(model_server: ScriptedModelServer) -> ScriptedModelServer:
    return scripted(model_server)


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


@dataclass(frozen=True)
class Finished:
    """A whole run of the demo."""

    code: int
    out: str
    error: str
    chats: list[str]
    folder: Path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    started: list[subprocess.Popen[str]] = []
    folder = tmp_path_factory.mktemp("demo")
    names = {"RAG_EVAL_MODEL": "some-judge", "RAG_EVAL_EMBEDDING_MODEL": "embedding"}
    with ScriptedModelServer() as server:
        process = demo(scripted(server), started, folder, **names)
        out, error = process.communicate(timeout=100)
        chats = [request.system for request in server.requests if request.body.get("stream")]
    return Finished(process.returncode, out, error, chats, folder)


def demo(
    server: ScriptedModelServer, started: list[subprocess.Popen[str]], folder: Path = ROOT, **names: str
) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAG_EVAL_")}
    environment |= {"RAG_EVAL_BASE_URL": server.url, "PYTHONPATH": str(ROOT)}
    started.append(
        subprocess.Popen(
            [sys.executable, "-m", "devhost.demo"],
            cwd=folder,
            env=environment | names,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A shell starts what it runs in the background with SIGINT ignored, and children inherit that.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
        )
    )
    return started[-1]


def test_three_replies_are_shown_with_their_scores(finished: Finished) -> None:
    assert (finished.code, finished.error) == (0, "")
    chats, _, _ = finished.out.partition("━━ 最後に")
    first, second, third = chats.split("━━ 質問 ")[1:]
    for part, scene in zip((first, second, third), SCENES, strict=True):
        assert f"ユーザー: {scene.question}" in part
        assert "  │ 週3日までです。" in part
    assert "コンテキスト精度 1.00" in first
    assert "必要コンテキストの網羅性 1.00" in first
    assert "コンテキスト精度 未評価" in second
    assert "忠実性 1.00" in second
    assert "コンテキスト精度 1.00" in third


def test_only_the_badly_tuned_bot_is_told_the_outdated_sentence(finished: Finished) -> None:
    # Three questions in the chat, then the three of the table.
    assert [OUTDATED_SENTENCE in system for system in finished.chats] == [False, False, True, True, True, True]
    assert OUTDATED_SENTENCE in finished.out


def test_at_the_end_a_table_is_evaluated_and_the_reports_stand_in_the_folder_that_is_named(
    finished: Finished,
) -> None:
    end = finished.out.partition("━━ 最後に")[2]
    questions = [row.question for row in read_table(TABLE.read_text(encoding="utf-8")).rows]
    assert [f"{number}/3 質問中: {question}" in end for number, question in enumerate(questions, start=1)] == [True] * 3
    assert re.search(r"  │ - . 忠実性 1\.00", end.replace("*", ""))
    page, spreadsheet = finished.folder / REPORT_FOLDER / "demo-1.html", finished.folder / REPORT_FOLDER / "demo-1.xlsx"
    for path in (page, spreadsheet):
        assert f"レポート: {path.relative_to(finished.folder)}（" in end
    assert all(question in page.read_text(encoding="utf-8") for question in questions)
    assert load_workbook(spreadsheet).worksheets


def test_a_slow_judge_scores_the_answers_alone(
    judge: ScriptedModelServer, plugin: PluginProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    models = DemoModels(ModelServer(judge.url), "judge", "embedding", "", slow=True)
    base, out = KnowledgeBase(KNOWLEDGE), io.StringIO()
    evaluate_table(choose(TEMPLATE, knowledge=[base], chat_model="bot"), plugin, models, base, out)
    assert "回答の2つの指標だけ" in out.getvalue()
    assert {request.prompt for request in judge.judge_calls} == {
        "relevancy.questions",
        "faithfulness.statements",
        "faithfulness.verdicts",
    }
    assert len(list((tmp_path / REPORT_FOLDER).iterdir())) == 2


def test_the_judge_is_named_and_the_sample_is_called_fictitious(finished: Finished) -> None:
    assert "ボットと判定のモデル: some-judge" in finished.out
    assert "架空の会社の社内規程（3 文書、12 チャンク）" in finished.out


def test_a_bot_that_cannot_answer_ends_the_demo_with_one_sentence(
    judge: ScriptedModelServer, started: list[subprocess.Popen[str]]
) -> None:
    judge.on_chat(HttpError(401, {"error": {"message": "bad key"}}))
    process = demo(judge, started, RAG_EVAL_MODEL="judge")
    _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "ボットが返信を作れませんでした" in error
    assert "Traceback" not in error


def test_an_embedding_server_that_fails_is_said(
    judge: ScriptedModelServer, started: list[subprocess.Popen[str]]
) -> None:
    judge.on_embedding(HttpError(404, {"error": {"message": "no such model"}}))
    process = demo(judge, started, RAG_EVAL_MODEL="judge", RAG_EVAL_EMBEDDING_MODEL="none")
    _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "no such model" in error or "404" in error
    assert "Traceback" not in error


def test_a_server_without_a_model_name_is_refused_in_one_sentence(
    model_server: ScriptedModelServer, started: list[subprocess.Popen[str]]
) -> None:
    process = demo(model_server, started)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert error.strip() == "RAG_EVAL_BASE_URL を使うときは、モデル名も環境変数 RAG_EVAL_MODEL で指定してください。"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_no_process_and_no_traceback(
    judge: ScriptedModelServer, started: list[subprocess.Popen[str]], number: signal.Signals
) -> None:
    judge.on_chat(Hang(60))
    process = demo(judge, started, RAG_EVAL_MODEL="judge")
    _wait_for_request(judge)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(number)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert error.strip() == "中断しました。"
    assert children != []
    assert [child for child in children if Path(f"/proc/{child}").exists()] == []


def test_a_base_url_without_a_scheme_is_refused() -> None:
    with (
        pytest.raises(SettingError, match="http:// または https://"),
        demo_models(sys.stdout, {"RAG_EVAL_BASE_URL": "localhost:8000", "RAG_EVAL_MODEL": "judge"}),
    ):
        pass


def test_embeddings_may_come_from_another_server() -> None:
    names = {
        "RAG_EVAL_BASE_URL": "http://one.example/v1",
        "RAG_EVAL_MODEL": "judge",
        "RAG_EVAL_API_KEY": "key",
        "RAG_EVAL_EMBEDDING_MODEL": "embedding",
        "RAG_EVAL_EMBEDDING_BASE_URL": "http://two.example/v1",
    }
    with demo_models(sys.stdout, names) as models:
        assert models.server.base_url == "http://one.example/v1"
        assert models.server.embedding_base_url == "http://two.example/v1"
        assert (models.chat_model, models.embedding_model) == ("judge", "embedding")


def test_each_question_finds_its_answer_in_the_sample_knowledge() -> None:
    base = KnowledgeBase(KNOWLEDGE)
    answers = ["在宅勤務は週3日までできます", "1泊12,000円を上限", "入社して6か月たち"]
    for scene, answer in zip(SCENES, answers, strict=True):
        assert any(answer in item["content"] for item in base.retrieve(scene.question, top_k=4))


def test_the_sample_table_agrees_with_the_sample_knowledge() -> None:
    table = TABLE.read_text(encoding="utf-8")
    knowledge = "\n".join(path.read_text(encoding="utf-8") for path in sorted(KNOWLEDGE.glob("*.md")))
    facts = [
        "6か月",
        "10日",
        "翌年度まで繰り越せ",
        "14日以内",
        "領収書",
        "経費システム",
        "週3日",
        "前日の17時まで",
        "上長",
    ]
    assert [fact for fact in facts if fact not in table] == []
    assert [fact for fact in facts if fact not in knowledge] == []
    references = {row.question: row.reference for row in read_table(table).rows}
    assert [scene.question in references for scene in SCENES] == [True, False, True]


def test_progress_without_a_terminal_is_one_line_for_each_finished_node(capsys: pytest.CaptureFixture[str]) -> None:
    with Waiting(sys.stdout) as waiting:
        waiting.on_node(NodeProgress("a", "忠実性", "started"))
        waiting.on_node(NodeProgress("a", "忠実性", "succeeded"))
        waiting.on_node(NodeProgress("b", "回答作成", "failed"))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("秒")[1].strip() for line in lines] == ["忠実性: 完了", "回答作成: 失敗"]


def test_a_line_is_cut_to_the_terminal_by_columns_not_characters() -> None:
    assert fitting("あいう", 5) == "あい"
    assert fitting("abc", 5) == "abc"


def test_a_framed_message_keeps_its_lines() -> None:
    assert framed("一\n\n二\n") == "  │ 一\n  │\n  │ 二"


def _wait_for_request(server: ScriptedModelServer) -> None:
    deadline = time.monotonic() + 60
    while not any(request.body.get("stream") for request in server.requests):
        assert time.monotonic() < deadline
        time.sleep(0.05)
