from bridge import settings


class JudgeSettings(settings.SettingsTool):
    """Chooses the judge and the embedding model once for all nodes."""
