"""Counts in, numbers out: never an answer."""
