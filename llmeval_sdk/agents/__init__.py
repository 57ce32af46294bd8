"""What is read of an agent's run before anything is scored.

`messages` reads chat messages with tool calls, in the formats that people have, as Steps. `run`
reads a Record once for all scores of a run: which calls failed, which change something, and what
the agent had seen when it made them.
"""
