"""Kill a process the hard way and find every call it had made.

With a spool folder, each finished record is in a memory-mapped file before the call returns. What
a killed process leaves is taken over by the next one with the same folder, here `llmeval agent`.
"""

import os
import subprocess
import sys
import tempfile

from llmeval_sdk.store.reader import StoreReader


APP = """
import os, signal
import llmeval_sdk as llmeval

@llmeval.workflow
def answer(question):
    return "because"

for number in range(100):
    answer(f"why {number}?")
os.kill(os.getpid(), signal.SIGKILL)
"""

with tempfile.TemporaryDirectory() as folder:
    settings = {"LLMEVAL_SPOOL": f"{folder}/spool", "LLMEVAL_STORE": f"{folder}/traces.db"}
    environment = {**os.environ, **settings, "LLMEVAL_WORKER": "off"}  # noqa: TID251
    app = subprocess.run([sys.executable, "-c", APP], env=environment, check=False)  # noqa: S603
    print(f"the app ended with {app.returncode}, without a thread of ours, after 100 calls")
    agent = [sys.executable, "-m", "llmeval_sdk", "agent", "--once"]
    subprocess.run(agent, env=environment, check=True)  # noqa: S603
    with StoreReader(f"{folder}/traces.db") as store:
        print(f"the store has {store.counts().spans} of them")
