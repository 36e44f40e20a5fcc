"""A whole list of questions: running, keeping, comparing."""
