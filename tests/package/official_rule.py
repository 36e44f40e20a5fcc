"""Which files Dify's own packaging tool takes: the rule of its source, pattern by pattern.

The tool walks the folder and asks every line of .difyignore by itself whether it matches. The first one that excludes
a folder or file decides; a line with "!" never excludes and so never matters. A pattern without a slash is compared
with every part of the path, one with a slash with the path from the top.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Self


@dataclass(frozen=True)
class Pattern:
    """One line: its parts between slashes, and whether it means folders only."""

    parts: tuple[str, ...]
    folders_only: bool
    anchored: bool

    @classmethod
    def parse(cls, line: str) -> Self:
        bare = line.rstrip("/")
        return cls(tuple(part for part in bare.split("/") if part), line.endswith("/"), "/" in bare)

    def excludes(self, path: Sequence[str], is_folder: bool) -> bool:
        if self.anchored:
            if len(path) < len(self.parts) or not all(map(fnmatchcase, path, self.parts)):
                return False
            return is_folder or not self.folders_only or len(path) > len(self.parts)
        [name] = self.parts
        last = len(path) - 1
        return any(
            fnmatchcase(part, name) and (is_folder or not self.folders_only or place < last)
            for place, part in enumerate(path)
        )


def taken(root: Path) -> list[str]:
    """The files that the tool would pack, sorted."""
    lines = [line.strip() for line in (root / ".difyignore").read_text(encoding="utf-8").splitlines()]
    patterns = [Pattern.parse(line) for line in lines if line and not line.startswith(("#", "!"))]
    return sorted(_walk(root, (), patterns))


def _walk(folder: Path, above: tuple[str, ...], patterns: Sequence[Pattern]) -> Iterator[str]:
    for entry in os.scandir(folder):
        path = (*above, entry.name)
        is_folder = entry.is_dir(follow_symlinks=False)
        if any(pattern.excludes(path, is_folder) for pattern in patterns):
            continue
        if is_folder:
            yield from _walk(Path(entry.path), path, patterns)
        else:
            yield "/".join(path)
