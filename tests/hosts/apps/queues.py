"""The service behind Dramatiq."""

import os

import dramatiq
import service
from dramatiq.brokers.redis import RedisBroker


dramatiq.set_broker(RedisBroker(url=os.environ["BROKER"]))


@dramatiq.actor
def run(name):
    service.answer(name)
