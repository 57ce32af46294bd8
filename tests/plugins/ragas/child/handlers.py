"""What test children do; imported in the child, by its path."""

import asyncio
import os
import sys
import time

from llmeval_sdk.errors import JudgeError


cancelled = []


def open_plain(options):
    async def handle(job, seconds):
        return await getattr(Do, job["do"])(job)

    return handle, {"options": dict(options)}


def open_fatal(options):
    raise JudgeError("not_installed", "the library is not there")


class Do:
    async def echo(job):
        return {"said": job.get("say"), "pid": os.getpid()}

    async def crash(job):
        os._exit(3)

    async def hang(job):
        time.sleep(60)  # noqa: ASYNC251 - to block is what it is for

    async def wait(job):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(job["say"])
            raise

    async def cancelled(job):
        return {"said": list(cancelled)}

    async def eat(job):
        return {"said": len(bytearray(job["bytes"]))}

    async def fail(job):
        raise ZeroDivisionError("by zero")

    async def look(job):
        modules = [name for name in sys.modules if name.partition(".")[0] in job["modules"]]
        return {"path": sys.path, "modules": modules, "variable": os.environ.get("EXTRA")}
