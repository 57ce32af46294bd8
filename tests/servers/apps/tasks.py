"""The service as Celery tasks, over a broker in a folder."""

import os
from pathlib import Path

from celery import Celery
from traced import serve


folder = Path(os.environ["BROKER"])
queue = folder / "queue"
done = folder / "done"
for each in (queue, done, folder / "control"):
    each.mkdir(parents=True, exist_ok=True)

app = Celery("tasks", broker="filesystem://", set_as_current=True)
app.conf.broker_transport_options = {
    "data_folder_in": str(queue), "data_folder_out": str(queue),
    "control_folder": str(folder / "control"), "polling_interval": 0.1,
}  # fmt: skip
app.conf.worker_prefetch_multiplier = 1


@app.task
def run(name):
    (done / f"{name}-{os.getpid()}").write_text(repr(serve(name)))
