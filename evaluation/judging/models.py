"""The models that a session asks: what it needs of them, and what a call of one costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class ModelIdentity:
    """Which model it is: two that differ in any of this may judge differently.

    Attributes:
        provider: as Dify names it, "" where it is not known.
        name: the model's, as users know it; "" stands for no model.
        parameters: what it is asked with, such as the temperature. JSON types only.
    """

    provider: str = ""
    name: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Charge:
    """What one model call cost. `price` is in `currency`; 0 when the provider names none."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    price: float = 0.0
    currency: str = ""


class Judge(Protocol):
    """A chat model. `name` is shown to users; `identity` is what its scores depend on."""

    name: str
    identity: ModelIdentity

    def complete(self, system: str, user: str) -> tuple[str, Charge]:
        """The model's reply to a system and a user message, whole.

        Raises:
            JudgeError: with the reason code of what went wrong.
        """
        ...


class Embedder(Protocol):
    """An embedding model. `name` is shown to users; `identity` is what its scores depend on."""

    name: str
    identity: ModelIdentity

    def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], Charge]:
        """One vector per text, in order.

        Raises:
            JudgeError: with the reason code of what went wrong.
        """
        ...
