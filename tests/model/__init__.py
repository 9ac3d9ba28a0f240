"""Hypothesis machines against plain dicts, with crash and reopen as steps."""
