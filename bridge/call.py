"""What tool calls share: the judge session with its models, the sample, the account of what was used."""

from collections.abc import Mapping
from typing import Any

from dify_plugin.core.runtime import Session

from bridge.dify.models import DifyEmbedder, DifyJudge, NoModel
from bridge.dify.places import PLACES, SharedStorage
from bridge.dify.selection import select_models
from evaluation.judging.session import PARALLEL_CALLS, JudgeSession, Slots
from evaluation.languages import Language
from evaluation.sample import Sample, read_answer, read_contexts, read_text
from evaluation.settings import read_count, read_depth, read_number, read_votes

MAX_QUESTIONS = 10


def open_session(
    session: Session, parameters: Mapping[str, Any], language: Language, places: Slots | None = None, **limits: Any
) -> JudgeSession:
    """The judge session for a tool call, with the models of the node, the app or the workspace.

    Args:
        places: for its calls; those of a chat when omitted.
        limits: further arguments of JudgeSession.

    Raises:
        EvaluationError: invalid_setting for votes.
    """
    selection = select_models(parameters, SharedStorage(session.storage), session.app_id)
    model, embedding_model = selection.model, selection.embedding_model
    return JudgeSession(
        DifyJudge(session.model, model) if model else NoModel(),
        DifyEmbedder(session.model, embedding_model) if embedding_model else None,
        language,
        votes=read_votes(parameters.get("votes")),
        places=places or PLACES.chat(PARALLEL_CALLS),
        **limits,
    )


def read_sample(parameters: Mapping[str, Any], inputs: tuple[str, ...]) -> Sample:
    """The sample with the inputs named."""
    texts = [name for name in inputs if name not in {"answer", "contexts"}]
    fields: dict[str, Any] = {name: read_text(parameters.get(name), name) for name in texts}
    if "answer" in inputs:
        said = read_answer(parameters.get("answer"))
        fields |= {"answer": said.text, "only_thought": said.only_thought}
    if "contexts" in inputs:
        fields["contexts"] = read_contexts(parameters.get("contexts"))
    return Sample(**fields)


def read_options(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that metrics take.

    Raises:
        EvaluationError: invalid_setting.
    """
    weight = read_number(parameters.get("similarity_weight"), "similarity_weight", 0, 1)
    return {
        "depth": read_depth(parameters.get("depth")),
        "question_count": read_count(parameters.get("question_count"), "question_count", 3, MAX_QUESTIONS),
        **({} if weight is None else {"similarity_weight": weight}),
    }


def models_of(session: JudgeSession) -> dict[str, Any]:
    """The models' names and what their calls cost."""
    return {
        "judge": session.judge.name,
        "embedding_model": session.embedder.name if session.embedder else "",
        "usage": session.usage.as_dict(),
    }


def about(session: JudgeSession, sample: Sample) -> dict[str, Any]:
    """With what a result was made: models, prompts, usage, and how the contexts were read."""
    return {
        **models_of(session),
        "language": session.language,
        "prompts": dict(sorted(session.prompts_used.items())),
        "contexts": {
            "chunks": len(sample.contexts.chunks),
            "dropped": sample.contexts.dropped,
            "duplicates": sample.contexts.duplicates,
        },
    }
