"""Cells in rows, before it is known what the columns hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Record(NamedTuple):
    """A row: its number as a spreadsheet counts, from 1, and its cells."""

    number: int
    cells: Sequence[str]


@dataclass(frozen=True)
class Note:
    """Something that users are told of a table.

    Attributes:
        name: of the sentence in texts/<language>.toml under [table].
        values: what it names; lists are told in part.
        file: the file it is about, "" when there is only one.
    """

    name: str
    values: Mapping[str, Any] = field(default_factory=dict)
    file: str = ""


@dataclass(frozen=True)
class Grid:
    """The records that hold anything, in order.

    Attributes:
        delimiter: what stands between the cells of a text where one more of it in a cell moves those after it; else "".
        joined: by row and column (from 0) the first row of a merged cell, for those of its rows that come after it.
        across: by row and column (from 0) the last column of a merged cell, for its first.
        notes: what was seen on the way.
    """

    records: Sequence[Record]
    delimiter: str = ""
    joined: Mapping[tuple[int, int], int] = field(default_factory=dict)
    across: Mapping[tuple[int, int], int] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
