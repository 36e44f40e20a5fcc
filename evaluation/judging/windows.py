"""Texts in pieces that a judge can read at once."""

from collections.abc import Sequence

# Chunks are judged together up to this size; most judges read several times as much, local ones are halved to fit.
WINDOW_CHARACTERS = 40_000


def split_windows(pieces: Sequence[str], size: int) -> list[list[str]]:
    """Pieces in order, grouped so that no group is longer than `size` characters.

    A piece that is longer by itself is split, at the end of a line or sentence where there is one in its second half.
    """
    windows: list[list[str]] = [[]]
    room = size
    for piece in pieces:
        for part in split_text(piece, size):
            if len(part) > room and windows[-1]:
                windows.append([])
                room = size
            windows[-1].append(part)
            room -= len(part)
    return windows


def split_text(text: str, size: int) -> list[str]:
    """The text in parts of at most `size` characters, which joined give the text again."""
    parts = []
    while len(text) > size:
        cut = max(text.rfind(mark, size // 2, size) for mark in ("\n", "。", ". ", "．", "！", "？")) + 1
        parts.append(text[: cut or size])
        text = text[cut or size :]
    return [*parts, text] if text or not parts else parts
