"""Lines of the log: what another system wrote in them stays text."""

from llmeval_sdk.process import shield


def test_the_text_of_a_foreign_error_neither_steers_a_terminal_nor_begins_a_line(caplog):
    """A hostile Redis answers with control sequences and a forged line of the log."""
    hostile = "ERR \x1b[2J\x9b2J\u202e\nWARNING llmeval_sdk: all is well\x07"
    shield.tell("what all hosts share (a test)", f"redis refuses a command: {hostile}")
    shield.write_notices()
    (line,) = [text for text in caplog.messages if "a test" in text]
    assert line.isprintable()
    assert r"ERR \x1b[2J\x9b2J\u202e WARNING" in line
