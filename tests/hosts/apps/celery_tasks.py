"""The service behind Celery."""

import os

import service
from celery import Celery


app = Celery("celery_tasks", broker=os.environ["BROKER"])


@app.task
def run(name):
    service.answer(name)
