from bridge import lookup


class ReferenceLookup(lookup.LookupTool):
    """Finds a question's reference answer."""
