"""What the calls of one evaluation cost together."""

import threading
from dataclasses import dataclass, field
from typing import Any

from evaluation.judging.models import Charge


@dataclass
class Usage:
    """What the calls of one evaluation cost together; safe to add to from several threads."""

    judge_calls: int = 0
    embedding_calls: int = 0
    retries: int = 0
    prompt_characters: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prices: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, charge: Charge) -> None:
        """Adds what a call cost."""
        with self._lock:
            self.prompt_tokens += charge.prompt_tokens
            self.completion_tokens += charge.completion_tokens
            if charge.price:
                self.prices[charge.currency] = self.prices.get(charge.currency, 0.0) + charge.price

    def count(self, **counters: int) -> None:
        """Adds to the counters named."""
        with self._lock:
            for name, number in counters.items():
                setattr(self, name, getattr(self, name) + number)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers: calls, tokens, price in `currency` (the dearest one; others under other_prices)."""
        with self._lock:
            ranked = sorted(self.prices.items(), key=lambda item: -item[1])
            return {
                "judge_calls": self.judge_calls,
                "embedding_calls": self.embedding_calls,
                "retries": self.retries,
                "prompt_characters": self.prompt_characters,
                "prompt_tokens": self.prompt_tokens,
                "completion_tokens": self.completion_tokens,
                "total_tokens": self.prompt_tokens + self.completion_tokens,
                "price": ranked[0][1] if ranked else 0.0,
                "currency": ranked[0][0] if ranked else "",
                "other_prices": dict(ranked[1:]),
            }
