"""Conversations: the turns of a session are kept on disk, and judged when it has been idle.

The state lies in a SQLite file beside the budget's ledger, so all processes of a host share it.
"""
