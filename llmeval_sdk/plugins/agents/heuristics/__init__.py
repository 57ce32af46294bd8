"""Free scores of an agent's run, one file each: its tool calls, its claims, its faults.

All read the same `llmeval_sdk.model.runs.Run`. A score's explanation names the step that it is
about, and its metadata holds the steps' numbers, counted from 1.
"""
