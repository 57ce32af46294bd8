"""The example and what the pages say of several hosts, as a reader would run them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


ROOT = Path(__file__).resolve().parents[3]


def test_two_hosts_that_run_the_example_make_six_calls_together(tmp_path, redis):
    """Each has a store of its own; the calls a minute are counted over both."""
    pytest.importorskip("openai", reason="the extra openai IS NOT INSTALLED: no judge can be asked")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("LLMEVAL_", "OPENAI_"))}
    hosts = [
        subprocess.Popen(
            [
                sys.executable,
                ROOT / "examples" / "one_budget_for_all_hosts.py",
                redis.address,
            ],
            env={**clean, "LLMEVAL_STORE": str(tmp_path / name / "store.db")},
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "two")
    ]
    outputs = [host.communicate(timeout=120)[0] for host in hosts]
    judged = [int(re.search(r"judged on this host: (\d+)", text)[1]) for text in outputs]
    assert sum(judged) == 6, outputs
