"""A fleet of judges: apps hand judgements to Redis, and ``llmeval fleet`` makes them elsewhere.

An app's process decides as it does without a fleet: it scores, escalates and samples. Then it
*asks*: a thread of the SDK signs up to 32 judgements and queues them. A worker *answers*: it claims
each of them, so that it is paid for once, runs the judge that it knows under the name, and sends
the verdict to its own exporters, or back to the host that asked.
"""
