"""How the SDK behaves in the process of the app: threads, forks, exit, exceptions and counters.

``shield`` keeps our exceptions away from the app, ``aside`` runs code of the app with a deadline,
``threads`` has our own threads and event loops, ``forks`` and ``hard_exit`` handle how processes
begin and end, and ``counters`` count without a lock. Nothing here knows spans or evaluators.
"""

import os


PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # noqa: PTH100, PTH120 - no pathlib at import
"""The folder of this package: a frame whose file lies below it runs our code."""
