"""What the SDK owes the process it lives in: threads, forks, its end, its errors and its counts.

``shield`` keeps our mistakes away from the app, ``threads`` runs code aside with a deadline,
``forks`` and ``hard_exit`` know how a process begins and ends, and ``counters`` count without a
lock on the app's thread. Nothing here knows a span, a record or an evaluator.
"""

import os


PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # noqa: PTH100, PTH120 - no pathlib at import
"""Where the code of ours lies: a frame of a file below it is ours."""
