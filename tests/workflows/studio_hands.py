"""A pair of hands in Studio that do what a README's steps say, and nothing else.

In the steps a node stands in bold, a field in quotation marks, a variable as code behind the node that gives it. A node
that is not on the canvas yet is added behind the one that was named or added before it, or between two that are
connected. A field without a variable behind it is one in which something is chosen, written or switched.
"""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from devhost.chatflow import MODEL_PROVIDER, selector
from devhost.template_nodes import PROVIDER
from tests.workflows.dsl import Document, data_by_id, graph_of, outputs_of

SKELETON = Path(__file__).parent / "data" / "newcomer_skeleton.yml"
TOKEN = re.compile(r"\*\*(?P<node>.+?)\*\*|「(?P<field>.+?)」|“(?P<quoted>.+?)”|`(?P<code>[^`]+)`")
QUERY = "{{#sys.query#}}"
# Studio's own words, by language: nodes, then fields.
WORDS: Mapping[str, Mapping[str, str]] = {
    "en_US": {
        "start": "User Input",
        "retrieval": "Knowledge Retrieval",
        "answer": "Answer",
        "knowledge": "Knowledge",
        "query": "Query Text",
        "model": "Model",
        "context": "Context",
        "memory": "Memory",
        "message": "Add Message",
    },
    "ja_JP": {
        "start": "ユーザー入力",
        "retrieval": "知識検索",
        "answer": "回答",
        "knowledge": "ナレッジベース",
        "query": "クエリテキスト",
        "model": "AI モデル",
        "context": "コンテキスト",
        "memory": "メモリ",
        "message": "メッセージ追加",
    },
    "zh_Hans": {
        "start": "用户输入",
        "retrieval": "知识检索",
        "answer": "直接回复",
        "knowledge": "知识库",
        "query": "查询文本",
        "model": "模型",
        "context": "上下文",
        "memory": "记忆",
        "message": "添加消息",
    },
}
LINE_BREAKS = re.compile("two line breaks|改行を 2 つ|换行两次")


def empty_chatflow(language: str) -> dict[str, Any]:
    """A new chatflow as Studio makes it: the question to the LLM is part of its memory."""
    document: dict[str, Any] = yaml.safe_load(SKELETON.read_text(encoding="utf-8"))
    graph, words = graph_of(document), WORDS[language]
    graph["nodes"] = [node for node in graph["nodes"] if node["id"] in {"start", "llm", "answer1"}]
    graph["edges"] = [edge for edge in graph["edges"] if (edge["source"], edge["target"]) == ("llm", "answer1")]
    graph["edges"].append({**copy.deepcopy(graph["edges"][0]), "source": "start", "target": "llm"})
    nodes = data_by_id(document)
    nodes["start"]["title"], nodes["llm"]["title"], nodes["answer1"]["title"] = words["start"], "LLM", words["answer"]
    nodes["llm"] |= {
        "context": {"enabled": False, "variable_selector": []},
        "memory": {"query_prompt_template": QUERY, "window": {"enabled": False, "size": 10}},
        "model": {"completion_params": {}, "mode": "chat", "name": "", "provider": ""},
        "prompt_template": [{"id": "s", "role": "system", "text": ""}],
    }
    return document


def steps_of(readme: str) -> list[str]:
    """The numbered steps of the list that begins between the User Input and the LLM node, bullets included."""
    lists = re.split(r"^(?=1\. )", readme, flags=re.MULTILINE)[1:]
    [text] = [text for text in lists if re.match(r"1\. [^\n]*\*\*LLM\*\*", text)]
    return re.findall(r"^\d\. (.+?)(?=^\d\. |^\n|\Z)", text.split("\n\n")[0] + "\n", re.MULTILINE | re.DOTALL)


@dataclass
class StudioHands:
    """Works on a document in one language.

    Attributes:
        choices: what is chosen or pasted: knowledge (an id), chat_model, judge_model, table.
    """

    document: dict[str, Any]
    language: str
    tools: Mapping[str, Mapping[str, Any]]
    choices: Mapping[str, str]
    last: str = "answer1"
    field_waiting: str | None = field(default=None, init=False)

    def follow(self, step: str) -> None:
        """Do one step."""
        acted: str | None = None
        source: str | None = None
        named: list[str] = []
        new_answer = len(re.findall(r"second|2 つ目|第二个", step)) == 1
        for kind, word in tokens(step):
            if kind == "node" and ((new_answer and word == self._word("answer")) or not self._ids(word)):
                acted = self.last = self._add(word, named)
                new_answer = False
            elif kind == "node":
                [node_id] = self._ids(word)
                named.append(node_id)
                acted, source = (node_id, None) if acted is None else (acted, node_id)
            elif kind == "field":
                if self.field_waiting and acted:
                    self._choose(acted)
                self.field_waiting = word
            elif acted and source:
                self._connect(acted, source, word, step)
                source = None
        if self.field_waiting and acted:
            self._choose(acted)

    def _word(self, name: str) -> str:
        return WORDS[self.language][name]

    def _ids(self, title: str) -> list[str]:
        return [node_id for node_id, data in data_by_id(self.document).items() if data["title"] == title][:1]

    def _add(self, title: str, named: Sequence[str]) -> str:
        skeleton = {
            node["id"]: node for node in yaml.safe_load(SKELETON.read_text("utf-8"))["workflow"]["graph"]["nodes"]
        }
        label = next(
            (name for name, tool in self.tools.items() if tool["identity"]["label"][self.language] == title), None
        )
        kinds = {self._word("retrieval"): "kr", self._word("answer"): "answer2"}
        template = "f" if label else kinds[title]
        node = copy.deepcopy(skeleton[template])
        node["id"] = label or template
        node["data"]["title"] = title
        if label:
            node["data"] |= {"tool_name": label, "tool_configurations": {}, "tool_parameters": {}}
            node["data"] |= {"provider_id": PROVIDER, "provider_name": PROVIDER}
        elif template == "kr":
            node["data"]["query_variable_selector"] = []
        else:
            node["data"]["answer"] = ""
        self._place(node["id"], named)
        graph_of(self.document)["nodes"].append(node)
        return str(node["id"])

    def _place(self, node_id: str, named: Sequence[str]) -> None:
        edges = graph_of(self.document)["edges"]
        pattern = copy.deepcopy(edges[0])
        between = [edge for edge in edges if [edge["source"], edge["target"]] == list(named)]
        if between:
            edges.remove(between[0])
            pairs = [(named[0], node_id), (node_id, named[1])]
        else:
            pairs = [(named[-1] if named else self.last, node_id)]
        edges += [{**pattern, "source": source, "target": target} for source, target in pairs]

    def _choose(self, node_id: str) -> None:
        data, word, self.field_waiting = data_by_id(self.document)[node_id], self.field_waiting or "", None
        if data["type"] == "tool":
            parameter = self._parameter(data, word)
            if parameter["type"] == "model-selector":
                data["tool_configurations"][parameter["name"]] = selector("llm", self.choices["judge_model"])
            else:
                data["tool_parameters"][parameter["name"]] = {"type": "mixed", "value": self.choices["table"]}
        elif word == self._word("knowledge"):
            data["dataset_ids"] = [self.choices["knowledge"]]
        elif word == self._word("model"):
            data["model"] |= {"provider": MODEL_PROVIDER, "name": self.choices["chat_model"]}
        elif word == "SYSTEM":
            data["prompt_template"][0]["text"] = "次の資料だけを使って答えてください。\n"
        elif word == self._word("context"):
            data["prompt_template"][0]["text"] += "{{#context#}}"
        elif word == self._word("memory"):
            del data["memory"]
        else:
            raise AssertionError(f"nothing to choose in {word}")

    def _connect(self, node_id: str, source: str, name: str, step: str) -> None:
        nodes = data_by_id(self.document)
        data, word, self.field_waiting = nodes[node_id], self.field_waiting, None
        if nodes[source]["type"] == "start":
            assert name == "query"
            path = ["sys", "query"]
        else:
            assert name in outputs_of(nodes[source], self.tools)
            path = [source, name]
        text = "{{#" + ".".join(path) + "#}}"
        if data["type"] == "tool":
            parameter = self._parameter(data, str(word))
            is_list = parameter["type"] == "array"
            value = {"type": "variable", "value": path} if is_list else {"type": "mixed", "value": text}
            data["tool_parameters"][parameter["name"]] = value
        elif data["type"] == "answer":
            data["answer"] += "\n\n" * bool(LINE_BREAKS.search(step)) + text
        elif word == self._word("query"):
            data["query_variable_selector"] = path
        elif word == self._word("context"):
            data["context"] = {"enabled": True, "variable_selector": path}
        elif word == self._word("message"):
            data["prompt_template"].append({"id": "u", "role": "user", "text": text})
        else:
            raise AssertionError(f"nothing to connect in {word}")

    def _parameter(self, data: Mapping[str, Any], word: str) -> Mapping[str, Any]:
        """The parameter with that label, whatever its label adds in brackets."""
        labels = {item["label"][self.language]: item for item in self.tools[data["tool_name"]]["parameters"]}
        exact = labels.get(word)
        if exact:
            return exact
        [found] = [item for label, item in labels.items() if re.match(rf"{re.escape(word)} ?[(（]", label)]
        return found


def tokens(step: str) -> Iterator[tuple[str, str]]:
    """The nodes, fields and code of a step, in order."""
    for match in TOKEN.finditer(step):
        kind = "field" if match.lastgroup == "quoted" else str(match.lastgroup)
        yield kind, match[str(match.lastgroup)]


def problems(document: Document) -> list[str]:
    """What keeps a chatflow from scoring its replies, in words."""
    nodes = data_by_id(document)
    llm = nodes["llm"]
    roles = [message["role"] for message in llm["prompt_template"]]
    conditions = {
        "the memory is on": "memory" in llm,
        "no judge is chosen": "judge_settings" not in nodes,
        "the LLM is not asked the question": roles != ["system", "user"],
        "the LLM does not get the chunks": "{{#context#}}" not in llm["prompt_template"][0]["text"]
        or llm["context"]["variable_selector"] != ["kr", "result"],
        "the scores stick to the reply": nodes["answer2"]["answer"] != "\n\n{{#evaluate_answer.text#}}",
        "the question is not looked for": nodes["kr"]["query_variable_selector"] != ["sys", "query"],
    }
    return [name for name, holds in conditions.items() if holds]
