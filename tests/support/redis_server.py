"""A real redis-server for tests: started on a free port, killed, stopped and emptied at will."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager


SERVER = shutil.which("redis-server")
WHY_SKIPPED = (
    "redis-server IS NOT INSTALLED, so nothing that hosts share is tested here: "
    "apt-get install redis-server"
)


class RedisServer:
    """One server with a folder and a port of its own, which it keeps when it is started again."""

    def __init__(self, folder, *options):
        self.folder = folder
        folder.mkdir(exist_ok=True, parents=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"redis://127.0.0.1:{self.port}/0"
        self._options = options
        self._process = None

    def start(self):
        """Start it, and wait until it answers."""
        command = [
            SERVER, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder),
            "--save", "", *self._options,
        ]  # fmt: skip
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + 60
        while not self._answers():
            assert time.monotonic() < deadline, "redis-server did not start"
            time.sleep(0.02)  # until it listens

    def kill(self):
        """End it as `kill -9` does."""
        self._process.kill()
        self._process.wait()

    def pause(self):
        """Let it hang: connections are made, and nothing is answered."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self):
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def flush(self):
        """Take all its data away."""
        self.client().flushall()

    def client(self):
        from llmeval_sdk.plugins.shared.redis_client import connect

        return connect(self.address)

    def _answers(self):
        from redis.exceptions import RedisError

        try:
            return bool(self.client().ping())
        except (RedisError, OSError):
            return False


@contextmanager
def running_redis(folder, *options):
    """Run a server for the block."""
    server = RedisServer(folder, *options)
    server.start()
    try:
        yield server
    finally:
        if server._process.poll() is None:
            server.resume()
            server.kill()


if __name__ == "__main__":
    print(SERVER or WHY_SKIPPED, sys.version, os.getpid())
