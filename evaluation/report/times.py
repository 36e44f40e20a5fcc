"""Times as people read them."""

from datetime import datetime, timedelta, timezone

from evaluation.report.escape import one_line
from evaluation.texts import Texts

NAME_CHARACTERS = 80


def time_text(iso: str, texts: Texts) -> str:
    """The time to the minute, on the clocks of the language's country."""
    try:
        zone = timezone(timedelta(hours=float(texts.get("report.clock_hours"))))
        time = datetime.fromisoformat(iso).astimezone(zone)
    except ValueError:
        return one_line(iso, NAME_CHARACTERS)
    return texts.get("report.time", time=time.strftime("%Y-%m-%d %H:%M"))
