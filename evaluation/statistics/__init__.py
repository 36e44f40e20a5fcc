"""Conclusions from plain values: how sure a mean is, what differs, what passes. Nothing of rows is known here."""
