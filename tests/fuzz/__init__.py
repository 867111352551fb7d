"""Fuzzers of everything that a stranger's bytes reach: `make fuzz`, or `python -m tests.fuzz [TARGET...]`.

A target takes bytes and returns, whatever they are: it swallows the refusals that its readers declare, so that anything
else that it raises is a crash. Coverage guides the search where atheris is installed; hypothesis draws edits otherwise.
"""
