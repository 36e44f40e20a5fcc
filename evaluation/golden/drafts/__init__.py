"""Questions and references drafted from documents: passages, which kind of each, the checks, and the round of calls."""
