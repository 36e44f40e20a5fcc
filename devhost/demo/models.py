"""The models of the demo: a server that the environment names, or the embedded judge."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TextIO

from devhost.dify_side import ModelServer
from devhost.local_models import LocalModels

BASE_URL = "RAG_EVAL_BASE_URL"
API_KEY = "RAG_EVAL_API_KEY"
MODEL = "RAG_EVAL_MODEL"
EMBEDDING_MODEL = "RAG_EVAL_EMBEDDING_MODEL"
EMBEDDING_BASE_URL = "RAG_EVAL_EMBEDDING_BASE_URL"

# A weak judge may babble without end; a reply that is right is far shorter.
EMBEDDED_PARAMETERS = {"temperature": 0, "max_tokens": 600}

WEAK = "小さく弱いモデルなので、判定をよく間違えます。スコアは、はじめに動きを見るための目安です。"


class SettingError(Exception):
    """An environment variable is missing or wrong; the text says which."""


@dataclass(frozen=True)
class DemoModels:
    """Models of the bot and the judge.

    Attributes:
        server: where both are asked.
        chat_model: the model of the bot and of the judge.
        embedding_model: "" when there is none.
        parameters: completion parameters of the judge.
        note: what the reader should know of the judge, in Japanese.
        slow: a call takes many seconds.
    """

    server: ModelServer
    chat_model: str
    embedding_model: str
    note: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    slow: bool = False


@contextmanager
def demo_models(out: TextIO, environment: Mapping[str, str] = os.environ) -> Iterator[DemoModels]:
    """The models to use; embedded ones run until the block ends.

    Raises:
        SettingError: a server is named without a model.
        JudgeUnavailableError: the embedded judge could not be fetched or started.
    """
    if base_url := environment.get(BASE_URL, "").strip():
        yield _named_server(base_url, environment)
        return
    print(f"{BASE_URL} が設定されていないので、この PC で動く組み込みの判定モデルを使います。", file=out, flush=True)
    with LocalModels(out) as models:
        yield DemoModels(
            ModelServer(models.llm_base_url, embedding_base_url=models.embedding_base_url),
            models.llm_model,
            models.embedding_model,
            f"組み込みの {models.llm_model}。{WEAK}",
            EMBEDDED_PARAMETERS,
            slow=True,
        )


def _named_server(base_url: str, environment: Mapping[str, str]) -> DemoModels:
    if not base_url.startswith(("http://", "https://")):
        raise SettingError(f"{BASE_URL} は http:// または https:// で始めてください（例: https://example.com/v1）。")
    model = environment.get(MODEL, "").strip()
    if not model:
        raise SettingError(f"{BASE_URL} を使うときは、モデル名も環境変数 {MODEL} で指定してください。")
    server = ModelServer(
        base_url,
        environment.get(API_KEY, "").strip(),
        embedding_base_url=environment.get(EMBEDDING_BASE_URL, "").strip() or None,
    )
    return DemoModels(server, model, environment.get(EMBEDDING_MODEL, "").strip(), f"{model}（{BASE_URL} のサーバー）")
