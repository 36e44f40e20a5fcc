"""Runs the chatflow template for three questions, prints the replies, and evaluates the bot over a question table."""

import logging
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TextIO

from devhost.chatflow import Chatflow, choose
from devhost.daemon import PluginDied, PluginProcess
from devhost.demo.models import BASE_URL, DemoModels, SettingError, demo_models
from devhost.demo.scenes import SCENES, Scene, badly_tuned
from devhost.demo.show import Waiting, framed
from devhost.demo.table import evaluate_table
from devhost.dify_side import DifySide, ModelError
from devhost.judge_model import JudgeUnavailableError
from devhost.knowledge import KnowledgeBase

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "workflows" / "rag_chat_scored.yml"
KNOWLEDGE = Path(__file__).parent / "knowledge"


TABLE_EXPLANATION = (
    "evaluate_app が、表の3つの質問を調整の悪いボットに尋ね、回答を採点してレポートを作ります（評価の深さは「節約」）。"
)
KINDS = {".html": "ブラウザーで開けます", ".xlsx": "Excel で開けます"}


class DemoError(Exception):
    """The demo cannot go on; the text says what to do."""


def run(out: TextIO = sys.stdout, scenes: Sequence[Scene] = SCENES) -> None:
    """Start everything, ask the questions, print the replies; then evaluate the bot over a table, write the reports.

    Raises:
        DemoError: the bot could not answer.
        SettingError, JudgeUnavailableError, PluginDied: what it needs is missing.
    """
    print(f"RAG Evaluator のデモ: テンプレート {TEMPLATE.relative_to(ROOT)} を見本のナレッジで動かします。", file=out)
    with demo_models(out) as models:
        started = time.monotonic()
        knowledge = _knowledge(models)
        documents = len({segment.document for segment in knowledge.segments})
        print(f"ナレッジ: 架空の会社の社内規程（{documents} 文書、{len(knowledge.segments)} チャンク）", file=out)
        print(f"ボットと判定のモデル: {models.note}", file=out, flush=True)
        good = choose(
            TEMPLATE,
            knowledge=[knowledge],
            chat_model=models.chat_model,
            judge_model=models.chat_model,
            embedding_model=models.embedding_model or None,
            judge_parameters=models.parameters,
        )
        with PluginProcess(ROOT, DifySide(models.server)) as plugin:
            for number, scene in enumerate(scenes, start=1):
                print(f"\n━━ 質問 {number}/{len(scenes)}: {scene.title} ━━\n{scene.explanation}", file=out)
                print(f"ユーザー: {scene.question}", file=out, flush=True)
                dsl = badly_tuned(good) if scene.badly_tuned else good
                _show_reply(Chatflow(dsl, plugin, models.server, [knowledge]), scene.question, out)
            print(f"\n━━ 最後に: 質問の表で一括評価 ━━\n{TABLE_EXPLANATION}", file=out, flush=True)
            reports = evaluate_table(badly_tuned(good), plugin, models, knowledge, out, time.monotonic() - started)
            for path in reports:
                print(f"レポート: {path}（{KINDS.get(path.suffix, path.suffix)}）", file=out)
        print(f"\n所要時間: {time.monotonic() - started:.0f} 秒（モデルの準備を除く）", file=out, flush=True)


def _show_reply(chatflow: Chatflow, question: str, out: TextIO) -> None:
    with Waiting(out) as waiting:
        reply = chatflow.run(question, on_node=waiting.on_node)
    if reply.error is not None and not reply.streamed:
        raise DemoError(
            f"ボットが返信を作れませんでした。モデルのサーバーと環境変数 {BASE_URL} などの設定を確認してください。"
            f"エラー: {reply.error}"
        )
    print(f"ボットの返信（{waiting.seconds:.0f} 秒）:\n{framed(reply.streamed)}", file=out, flush=True)
    if reply.error is not None:
        raise DemoError(f"チャットフローが途中で止まりました。エラー: {reply.error}")


def _knowledge(models: DemoModels) -> KnowledgeBase:
    if not models.embedding_model:
        return KnowledgeBase(KNOWLEDGE, name="社内規程")

    def embed(texts: Sequence[str]) -> list[list[float]]:
        reply = models.server.embed({"model": models.embedding_model, "texts": list(texts)})
        vectors: list[list[float]] = reply["embeddings"]
        return vectors

    return KnowledgeBase(KNOWLEDGE, name="社内規程", embed=embed)


def main() -> int:
    """The process's exit code: 0, 1 when something is missing or failed, 130 when it was interrupted."""
    signal.signal(signal.SIGTERM, _interrupt)
    # graphon logs a traceback for each failed node; what failed is told in one sentence below.
    logging.disable(logging.CRITICAL)
    try:
        run()
    except KeyboardInterrupt:
        print("\n中断しました。", file=sys.stderr)
        return 130
    except (DemoError, SettingError, JudgeUnavailableError) as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except ModelError as error:
        print(f"\nモデルのサーバーから返答がありません。設定を確認してください。エラー: {error}", file=sys.stderr)
        return 1
    except PluginDied as error:
        print(f"\nプラグインのプロセスが動きません。`make test` で確認してください。エラー: {error}", file=sys.stderr)
        return 1
    return 0


def _interrupt(_signum: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
