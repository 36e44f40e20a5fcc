"""The names under which there are runs. Runs without a name are the app's: it stands for their name."""

from dataclasses import dataclass

from evaluation.runs.store import run_base
from evaluation.storage.register import Register
from evaluation.storage.values import Values

_REGISTER = "runs/names"
# Between the parts of an entry for an app; no name begins with it, as names are stripped of white space.
_MARK = "\n"


@dataclass(frozen=True)
class RunName:
    """What runs are kept under.

    Attributes:
        name: as the user gave it, "" for the runs of an app.
        app_id, app_name: the app, known for runs without a name only; app_name may be "".
    """

    name: str
    app_id: str = ""
    app_name: str = ""

    @property
    def base(self) -> str:
        """What the keys of its runs begin with."""
        return run_base(self.name, self.app_id)

    @property
    def entry(self) -> str:
        """The name in the register."""
        return self.name or f"{_MARK}{self.app_id}{_MARK}{self.app_name}"

    @classmethod
    def of(cls, name: str, app_id: str, app_name: str) -> "RunName":
        """The name of a run for an app."""
        return cls(name) if name else cls("", app_id, app_name)

    @classmethod
    def read(cls, entry: str) -> "RunName":
        """What an entry of the register stands for."""
        if not entry.startswith(_MARK):
            return cls(entry)
        app_id, _, app_name = entry[1:].partition(_MARK)
        return cls("", app_id, app_name)


def add_name(values: Values, name: RunName) -> None:
    """Puts the name in the register; nothing is written when it is there. Raises as Register.add."""
    Register(values, _REGISTER).add(name.entry)


def list_names(values: Values) -> list[RunName]:
    """All names, the latest first; an app stands once, as it was called last. Raises storage_failed."""
    names = [RunName.read(entry) for entry in Register(values, _REGISTER).names()]
    return list({name.base: name for name in reversed(names)}.values())[::-1]


def find_name(values: Values, wanted: str) -> RunName | None:
    """The name as a user writes it: that of runs, or what an app is called, or its id; None when there is none."""
    names = list_names(values)
    return next((name for name in names if wanted in {name.name, name.app_name, name.app_id} - {""}), None)
