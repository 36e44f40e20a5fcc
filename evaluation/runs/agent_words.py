"""What an agent says, told from what it says to itself on the way there."""

import json
import re
from collections.abc import Sequence

# The labels of a ReAct agent's steps.
_STEP = r"^[ \t]*[*_#]*(?:Thought|Action(?: Input)?|Observation)[*_]*[ \t]*[:：]"
_FINAL = r"^[ \t]*[*_#]*(?:Final Answer|最終回答|最终答案|最終答案)[*_]*[ \t]*[:：][*_]*"
# The last action of some ReAct agents is their answer.
_FINAL_ACTION = r"\s*(?:```(?:json)?\s*)?(\{.*\})\s*(?:```)?\s*"
_FLAGS = re.IGNORECASE | re.MULTILINE
# Dify hands a ReAct agent's thoughts on letter by letter, and its answer in one piece.
_FEWEST_LETTERS = 8
_SHARE_OF_LETTERS = 0.9


class AgentWords:
    """An agent app's stream: messages and thoughts."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._told = ""

    def say(self, text: str) -> None:
        """A piece of an agent_message."""
        self._pieces.append(text)

    def think(self, thought: str, *, calls: bool) -> None:
        """An agent_thought: of a round that `calls` a tool, or of the last one.

        What was said before a tool call is no part of the answer.
        """
        if calls:
            self._pieces.clear()
        self._told = "" if calls else thought

    def replace(self, text: str) -> None:
        """A message_replace."""
        self._pieces = [text]

    @property
    def answer(self) -> str:
        """What is said after the last tool call, without the thoughts of a ReAct agent."""
        said = "".join(self._pieces).strip()
        # A function calling agent ends with a thought that repeats its answer; a ReAct agent does not.
        if self._told and self._told.strip() == said:
            return said
        pieces = [piece for piece in self._pieces if piece]
        return _of_last_action(_after_steps(pieces[-1:] if _is_spelt(pieces) else pieces))


def _is_spelt(pieces: Sequence[str]) -> bool:
    """Whether the last piece follows a thought that came letter by letter."""
    *before, last = pieces or [""]
    letters = sum(len(piece) == 1 for piece in before)
    return len(last.strip()) > 1 and letters >= _FEWEST_LETTERS and letters >= _SHARE_OF_LETTERS * len(before)


def _of_last_action(said: str) -> str:
    """The answer in {"action": "Final Answer", "action_input": "…"}; any other text as it is."""
    action = re.fullmatch(_FINAL_ACTION, said, re.DOTALL)
    try:
        value = json.loads(action[1]) if action else None
    except (ValueError, RecursionError):
        return said
    if not isinstance(value, dict) or not str(value.get("action", "")).casefold().startswith("final"):
        return said
    answer = value.get("action_input")
    return answer.strip() if isinstance(answer, str) else said


def _after_steps(pieces: Sequence[str]) -> str:
    """The answer behind the labels of a ReAct agent's steps; all of it where there are none."""
    said = "".join(pieces).strip()
    finals = list(re.finditer(_FINAL, said, _FLAGS))
    if finals:
        return said[finals[-1].end() :].strip()
    steps = list(re.finditer(_STEP, said, _FLAGS))
    if not steps:
        return said
    *before, last = pieces
    if last.strip() and not re.search(_STEP, last, _FLAGS) and "".join(before).endswith("\n"):
        return last.strip()
    # The answer stands on the lines after the last thought; where there are none, the thought is all that was shown.
    thought, _, answer = said[steps[-1].end() :].partition("\n")
    return (answer.strip() or thought).strip()
