"""The tools with the real embedded judge, where its model has been fetched already; `make test-live` runs this."""

import io

import pytest

from devhost.daemon import PluginProcess, collect
from devhost.dify_side import DifySide, ModelServer, Storage
from devhost.local_models import LocalModels, model_is_there

PROVIDER = "langgenius/openai_api_compatible/openai_api_compatible"


@pytest.mark.live
@pytest.mark.timeout(300)
@pytest.mark.skipif(not model_is_there(), reason="the embedded judge's model is not there; make demo fetches it")
def test_the_embedded_judge_and_embeddings_score_an_answer(plugin: PluginProcess, storage: Storage) -> None:
    with LocalModels(io.StringIO()) as models:
        server = ModelServer(models.llm_base_url, "", embedding_base_url=models.embedding_base_url)
        plugin.dify = DifySide(server, storage)
        judge = {"provider": PROVIDER, "model": models.llm_model, "model_type": "llm", "mode": "chat"}
        embedding = {"provider": PROVIDER, "model": models.embedding_model, "model_type": "text-embedding", "mode": ""}
        parameters = {
            "question": "在宅勤務は週に何日までできますか",
            "answer": "在宅勤務は週5日までできます。",
            "contexts": [{"content": "在宅勤務は、週3日を上限とします。", "title": "在宅勤務.md"}],
            "model": {**judge, "completion_params": {"max_tokens": 400}},
            "embedding_model": embedding,
        }
        faithfulness = collect(plugin.invoke_tool("faithfulness", parameters, timeout=250)).variables
        relevancy = collect(plugin.invoke_tool("answer_relevancy", parameters, timeout=250)).variables

    assert faithfulness["status"] == "scored"
    # A weak judge: that it finds fault at all is what can be asked of it.
    assert faithfulness["score"] < 1
    assert faithfulness["details"]["usage"]["judge_calls"] == 2
    assert relevancy["status"] == "scored"
    assert relevancy["details"]["method"] == "embedding"
    assert relevancy["score"] > 0.8
