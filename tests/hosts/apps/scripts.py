"""The service in processes that nobody asks from outside: ``scripts.py KIND COUNT``."""

import multiprocessing
import os
import signal
import sys
import time
from concurrent.futures import ProcessPoolExecutor

import service


def script(names):
    for name in names:
        service.answer(name)


def script_sigterm(names):
    script(names)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)


def pool(names):
    with multiprocessing.Pool(2) as workers:
        workers.map(service.answer, names)


def executor(names):
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as workers:
        list(workers.map(service.answer, names))


def fork_in_c(names):
    import ctypes

    children = []
    for part in (names[::2], names[1::2]):
        child = ctypes.PyDLL(None).fork()
        if not child:
            script(part)
            sys.exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def apscheduler(names):
    from apscheduler.schedulers.background import BackgroundScheduler

    scheduler = BackgroundScheduler()
    scheduler.start()
    for name in names:
        scheduler.add_job(service.answer, args=[name], misfire_grace_time=None)
    while scheduler.get_jobs():
        time.sleep(0.01)
    scheduler.shutdown()


def reruns(names):
    """As Streamlit does: the set-up runs again before each request."""
    for name in names:
        service.set_up()
        service.answer(name)


if __name__ == "__main__":
    globals()[sys.argv[1]]([f"q{number}" for number in range(int(sys.argv[2]))])
