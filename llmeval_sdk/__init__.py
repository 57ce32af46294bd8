"""Trace, score and judge production LLM apps in process."""
