"""`make bench-against` reads the figures of every benchmark that it compares."""

from benchmarks.against import rows


OF_A_TABLE = """
figure                                                                      measured               bar
bare AsyncOpenAI loop                                             300/s, 2.98 ms CPU
share of the bare loop's rate                                                  91.3%            >= 95%  MISSED
p99 of a traced call, 32 judgements at a time                                85.3 us        <= 57.2 us  MISSED
"""
OF_LINES = """
CPU per traced call, llmeval_sdk         129.3 us   (rounds 97-163)
ratio 0.79   bar <= 1.00   (idle of both: 0.0 ms of CPU a second)
  in bare OpenTelemetry spans 2.53   bar <= 1.88
10000 spans: 10000 arrived, 0 lost, 10,239 a second
"""


def test_the_rows_of_a_table_are_figures():
    """With the direction of each, which its bar tells; a heading is none."""
    assert list(rows(OF_A_TABLE)) == [
        ("bare AsyncOpenAI loop", 300.0, True),
        ("share of the bare loop's rate", 91.3, True),
        ("p99 of a traced call, 32 judgements at a time", 85.3, False),
    ]


def test_lines_of_their_own_are_figures_too():
    """A benchmark that prints no table would else be left out of the comparison in silence."""
    assert list(rows(OF_LINES)) == [
        ("CPU per traced call, llmeval_sdk", 129.3, False),
        ("ratio", 0.79, False),
        ("in bare OpenTelemetry spans", 2.53, False),
    ]
