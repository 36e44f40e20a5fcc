"""The tool that drafts questions and references from documents."""

import json
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from bridge.app import DEFAULT_SECONDS, LONGEST_SECONDS, SHORTEST_SECONDS
from bridge.call import open_session
from bridge.dify.knowledge import KnowledgeApi
from bridge.dify.places import PLACES
from bridge.edge import EvaluatorTool, Output, is_true
from evaluation.errors import EvaluationError, Reason
from evaluation.golden.drafts.cost import Estimate, estimate
from evaluation.golden.drafts.drafting import PARALLEL_DRAFTS, Drafter, DraftRequest, Progress, Sessions
from evaluation.golden.drafts.passages import read_passages
from evaluation.golden.drafts.plan import USUAL_MIX, shares
from evaluation.golden.drafts.state import DraftStore
from evaluation.golden.kept import KeptTables
from evaluation.golden.kept_rows import KINDS, KeptRow, records_of
from evaluation.judging.clock import Clock
from evaluation.judging.session import JudgeSession
from evaluation.languages import Language
from evaluation.report.drafts import Drafted, Material, drafted_line, drafted_text, estimate_line
from evaluation.report.escape import unescape
from evaluation.report.markdown import reason_sentence
from evaluation.result import Status, bounded, status_of
from evaluation.sample import MAX_CONTEXTS_CHARACTERS, Chunk, read_contexts, read_text
from evaluation.settings import invalid_setting, read_count, read_number
from evaluation.texts import Texts, load_texts

DEFAULT_DRAFTS, MOST_DRAFTS = 20, 200
DEFAULT_CALLS, MOST_CALLS = 200, 5000
MOST_SHARE = 100
MOST_EXAMPLES = 10
# What is read of a knowledge base: so many documents, spread over all of them, and the first chunks of each.
READ_DOCUMENTS, READ_CHUNKS = 50, 100
READING_SECONDS = 60.0
# For putting the drafts into the table at the end.
SAVING_SECONDS = 10.0


class DraftTool(EvaluatorTool):
    """Reads the documents, drafts as many questions as calls and time allow, and keeps them as drafts of a table."""

    def run(self, parameters: Mapping[str, Any], texts: Texts) -> Output:
        began = time.monotonic()
        count = read_count(parameters.get("draft_count"), "draft_count", DEFAULT_DRAFTS, MOST_DRAFTS)
        mix = read_mix(parameters)
        calls = read_count(parameters.get("max_calls"), "max_calls", DEFAULT_CALLS, MOST_CALLS)
        seconds = read_number(parameters.get("time_limit"), "time_limit", SHORTEST_SECONDS, LONGEST_SECONDS)
        until = began + (seconds or DEFAULT_SECONDS) - SAVING_SECONDS
        request = DraftRequest(read_examples(parameters), calls)
        name = read_text(parameters.get("table_name"), "table_name")
        material = read_material(parameters, until)
        if not material.passages:
            raise EvaluationError(Reason.NO_PASSAGES)
        if parameters.get("language") in {None, "", "auto"}:
            texts = load_texts(material.passages[0].language)
        if is_true(parameters.get("estimate")):
            return _estimated(count, material, calls, texts)
        sessions = self._sessions(parameters, until)
        if not sessions.of(texts.language).judge.name:
            raise EvaluationError(Reason.MODEL_NOT_SELECTED, field="model")
        drafted = self._drafted(name, Progress(count, mix), request, material, sessions)
        return _output(drafted, sessions.of(texts.language), texts)

    def _sessions(self, parameters: Mapping[str, Any], until: float) -> Sessions:
        """Sessions that end at the same time and take their turns behind what chats wait for."""
        places, clock = PLACES.run(PARALLEL_DRAFTS).row("drafts"), Clock()

        def open_one(language: Language) -> JudgeSession:
            budget = max(1.0, until - time.monotonic())
            return open_session(self.session, parameters, language, places, budget=budget, clock=clock)

        return Sessions(open_one)

    def _drafted(
        self, name: str, progress: Progress, request: DraftRequest, material: Material, sessions: Sessions
    ) -> Drafted:
        if not name:
            # Nothing is kept, so that nobody can go on with it.
            drafter = Drafter(request, material.passages, (), sessions, lambda _: None)
            error = drafter.run(progress)
            return Drafted(progress, tuple(progress.rows), material, None, error)
        store = DraftStore(self.storage, name, self.runtime.user_id or "")
        progress = store.begin(progress.count, progress.mix)
        try:
            tables = KeptTables(self.storage)
            rows = tables.read(name).rows if tables.head(name) else ()
            drafter = Drafter(request, material.passages, rows, sessions, store.save)
            error = _run(drafter, progress)
            made, table = tuple(progress.rows), None
            try:
                table = store.finish(progress)
            except EvaluationError as unsaved:
                error = unsaved
            return Drafted(progress, made, material, table, error)
        finally:
            store.release()

    def failed(self, error: EvaluationError, texts: Texts) -> Output:
        line = reason_sentence(error.reason, error.values, texts)
        return Output(line, _variables((), line, texts, error=error))


def _run(drafter: Drafter, progress: Progress) -> EvaluationError | None:
    try:
        return drafter.run(progress)
    except EvaluationError as error:
        # The storage refused; what was made is still there to be shown.
        return error


def read_mix(parameters: Mapping[str, Any]) -> dict[str, float]:
    """The kinds' weights; the usual ones where none is set at all.

    Raises:
        EvaluationError: invalid_setting, also when all are 0.
    """
    given = {kind: read_number(parameters.get(f"{kind}_share"), f"{kind}_share", 0, MOST_SHARE) for kind in KINDS}
    if all(share is None for share in given.values()):
        return dict(USUAL_MIX)
    mix = {kind: USUAL_MIX[kind] if share is None else share for kind, share in given.items()}
    if not any(mix.values()):
        raise invalid_setting("fact_share", 0, "1", str(MOST_SHARE))
    return mix


def read_examples(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """The user's own questions, one a line."""
    lines = read_text(parameters.get("examples"), "examples").splitlines()
    return tuple(line.strip() for line in lines if line.strip())[:MOST_EXAMPLES]


def read_material(parameters: Mapping[str, Any], until: float) -> Material:
    """The passages of everything that is given: chunks, a document's text, a knowledge base.

    Raises:
        EvaluationError: what reading an input may give, and the errors of KnowledgeApi.
    """
    chunks = list(read_contexts(parameters.get("contexts")).chunks)
    text = read_text(parameters.get("document_text"), "document_text", MAX_CONTEXTS_CHARACTERS)
    if text:
        chunks.append(Chunk(text, read_text(parameters.get("document_name"), "document_name")))
    found, read, documents = _read_knowledge(parameters, until)
    passages, thin = read_passages([*chunks, *found])
    return Material(passages, thin, read, documents)


def _read_knowledge(parameters: Mapping[str, Any], until: float) -> tuple[list[Chunk], int, int]:
    """Chunks of the knowledge base that is named, how many of its documents they are from, and how many it has."""
    fields = ("knowledge", "knowledge_address", "knowledge_key")
    name, address, key = (read_text(parameters.get(field), field) for field in fields)
    if not name:
        return [], 0, 0
    api = KnowledgeApi(address, key)
    dataset = api.find_dataset(name)
    documents = [document for document in api.documents(dataset.id) if document.available]
    step = max(1.0, len(documents) / READ_DOCUMENTS)
    chosen = [documents[int(place * step)] for place in range(min(len(documents), READ_DOCUMENTS))]
    until = min(until, time.monotonic() + READING_SECONDS)
    chunks: list[Chunk] = []
    read = 0
    for document in chosen:
        if read and time.monotonic() > until:
            break
        segments = islice(api.segments(dataset.id, document.id), READ_CHUNKS)
        chunks += [Chunk(segment.text, document.name) for segment in segments if segment.available and segment.text]
        read += 1
    return chunks, read, len(documents)


def _estimated(count: int, material: Material, max_calls: int, texts: Texts) -> Output:
    cost = estimate(count, material.passages)
    line = estimate_line(count, cost, material, max_calls, texts)
    return Output(line, _variables((), line, texts, asked=count, details={"estimate": _cost(cost)}))


def _cost(cost: Estimate) -> dict[str, Any]:
    return {"judge_calls_low": cost.low, "judge_calls_high": cost.high, "tokens": cost.tokens}


def _output(drafted: Drafted, session: JudgeSession, texts: Texts) -> Output:
    progress, usage = drafted.progress, session.usage.as_dict()
    drafted = Drafted(
        progress, drafted.rows, drafted.material, drafted.table, drafted.error, {"judge": session.judge.name, **usage}
    )
    wanted = shares(progress.count, progress.mix)
    details = {
        "kinds": {kind: {"asked": wanted[kind], "kept": progress.made.kinds[kind]} for kind in KINDS},
        "documents": dict(progress.made.documents),
        "dropped": dict(progress.dropped),
        "thrown_away": progress.flawed,
        "attempts": progress.made.attempts.total(),
        "calls_in_all": progress.calls,
        "passages": len(drafted.material.passages),
        "passages_without_content": drafted.material.thin,
        "documents_read": drafted.material.read,
        "documents_in_knowledge": drafted.material.documents,
        "judge": session.judge.name,
        "embedding_model": session.embedder.name if session.embedder else "",
        "usage": usage,
    }
    line = drafted_line(drafted, texts)
    variables = _variables(drafted.rows, line, texts, asked=progress.count, error=drafted.error, details=details)
    variables |= {"kept": progress.made.kept, "finished": progress.finished, "status": _status(drafted)}
    if drafted.table:
        variables |= {"table_name": drafted.table.head.name, "version": drafted.table.version.number}
    return Output(drafted_text(drafted, texts), variables)


def _status(drafted: Drafted) -> Status:
    if drafted.error is None:
        return "scored"
    return "partial" if drafted.progress.made.kept else "failed"


def _variables(
    rows: Sequence[KeptRow],
    line: str,
    texts: Texts,
    *,
    asked: int = 0,
    error: EvaluationError | None = None,
    details: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    records = records_of(rows, texts.language)
    return {
        "table": json.dumps(records, ensure_ascii=False) if records else "",
        "table_name": "",
        "version": None,
        "asked": asked,
        "kept": 0,
        "finished": False,
        "status": status_of(error),
        "reason": error.reason.value if error else "",
        # A line for reading; `text` is Markdown.
        "summary": unescape(line),
        "details": bounded(details or {}),
    }
