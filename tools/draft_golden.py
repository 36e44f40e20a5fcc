from bridge import drafting


class DraftGolden(drafting.DraftTool):
    """Drafts questions and references from documents."""
