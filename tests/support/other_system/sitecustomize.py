"""Take from this Python what another system lacks, and add what is strict there.

``SIMULATED_SYSTEM`` is ``windows``, ``macos``, or ``no list of users``. Python imports this file by its name in each
process whose ``PYTHONPATH`` has the folder, so that children of children are included.
"""

# What the standard library asks the system for is loaded first: there it has other ways, here not.
import asyncio
import concurrent.futures.process  # noqa: F401
import mmap
import multiprocessing.popen_spawn_posix
import multiprocessing.resource_tracker
import os
import select
import shutil  # noqa: F401
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path


LINUX_ONLY = {
    os: "posix_fallocate posix_fadvise sched_getaffinity sched_setaffinity memfd_create pidfd_open "
        "sendfile splice eventfd O_TMPFILE O_PATH O_DIRECT O_NOATIME",
    mmap: "MAP_POPULATE",
    select: "epoll",
    socket: "SOCK_NONBLOCK SOCK_CLOEXEC AF_NETLINK TCP_KEEPIDLE TCP_USER_TIMEOUT SO_PEERCRED",
    time: "pthread_getcpuclockid",
}  # fmt: skip
POSIX_ONLY = {
    os: "fork forkpty register_at_fork pread pwrite preadv pwritev getuid geteuid getgid getegid "
        "getgroups setuid setgid fchmod fchown chown lchown killpg setsid getpgid getpgrp setpgid nice "
        "getloadavg sysconf mkfifo openpty wait wait3 wait4 WNOHANG "
        "WIFEXITED lockf fdatasync sync getpriority setpriority "
        "O_CLOEXEC O_NOFOLLOW O_DIRECTORY O_NONBLOCK O_NOCTTY O_SYNC O_DSYNC",
    mmap: "MAP_SHARED MAP_PRIVATE MAP_ANONYMOUS PROT_READ PROT_WRITE",
    select: "poll",
    signal: "SIGKILL SIGHUP SIGQUIT SIGUSR1 SIGUSR2 SIGALRM SIGCHLD SIGPIPE SIGCONT SIGSTOP SIGTSTP "
            "setitimer getitimer alarm pause pthread_kill pthread_sigmask siginterrupt sigwait "
            "sigtimedwait sigpending ITIMER_REAL ITIMER_PROF SIG_BLOCK SIG_UNBLOCK SIG_SETMASK",
    socket: "AF_UNIX SO_REUSEPORT MSG_DONTWAIT CMSG_LEN",
    time: "tzset",
    asyncio: "start_unix_server open_unix_connection",
}  # fmt: skip
POSIX_MODULES = (
    "fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "syslog", "readline", "curses",
)  # fmt: skip
FORBIDDEN = set('<>"|?*:')
"""Characters that no name of a file has on Windows."""


def _take_away(names):
    for module, words in names.items():
        for name in words.split():
            if hasattr(module, name):
                delattr(module, name)


def _without_proc(event, arguments):
    if event == "open" and str(arguments[0]).startswith("/proc/") and not _own_look:
        raise FileNotFoundError(2, "there is no /proc", arguments[0])


_own_look = []


def _is_open(path):
    """Say whether this process has a file open, which then can neither be removed nor replaced."""
    if isinstance(path, int):
        return False
    real = Path(os.fsdecode(path)).resolve()
    _own_look.append(real)
    try:
        for name in os.listdir("/proc/self/fd"):
            try:
                if Path(f"/proc/self/fd/{name}").readlink() == real and not real.is_dir():
                    return True
            except OSError:
                continue
    finally:
        _own_look.clear()
    return False


def _strict(event, arguments):
    if event == "os.remove" and _is_open(arguments[0]):
        raise PermissionError(13, "The process cannot access the file, it is in use", arguments[0])
    if event == "os.rename" and (_is_open(arguments[0]) or _is_open(arguments[1])):
        raise PermissionError(13, "The process cannot access the file, it is in use", arguments[1])
    if event in ("open", "os.mkdir", "os.rename"):
        for path in arguments[: 2 if event == "os.rename" else 1]:
            is_path = isinstance(path, (str, bytes, os.PathLike))
            if is_path and set(Path(os.fsdecode(path)).name) & FORBIDDEN:
                raise OSError(22, "The file name, directory name, or volume label is wrong", path)


def _lines_as_on_windows():
    """Let what is opened without ``O_BINARY`` be text, whose lines end by two characters."""
    os.O_BINARY = 1 << 40
    text, opened, write = set(), os.open, os.write

    def open_(path, flags, mode=0o777, *, dir_fd=None):
        if dir_fd is not None:
            raise NotImplementedError("dir_fd unavailable on this platform")
        descriptor = opened(path, flags & ~os.O_BINARY, mode)
        (text.discard if flags & os.O_BINARY else text.add)(descriptor)
        return descriptor

    def write_(descriptor, data):
        if descriptor not in text or descriptor < 3:
            return write(descriptor, data)
        write(descriptor, bytes(data).replace(b"\n", b"\r\n"))
        return len(data)

    os.open, os.write = open_, write_
    tempfile._bin_openflags |= os.O_BINARY
    os.supports_dir_fd.clear()


def _other_ways_of_the_library():
    """Let the standard library do without, as it does there."""
    kill, hard, pair, unix = os.kill, signal.SIGKILL, socket.socketpair, socket.AF_UNIX

    def end(process):
        if process.poll() is None:
            kill(process.pid, hard)

    subprocess.Popen.kill = subprocess.Popen.terminate = end
    socket.socketpair = lambda *_: pair(unix)
    multiprocessing.resource_tracker._HAVE_SIGMASK = False
    tempfile.TemporaryFile = tempfile.NamedTemporaryFile


def _of_no_user(number):
    raise KeyError(f"getpwuid(): uid not found: {number}")


SYSTEM = os.environ.get("SIMULATED_SYSTEM", "")
if SYSTEM == "no list of users":
    import pwd

    pwd.getpwuid = _of_no_user
elif SYSTEM:
    sys.addaudithook(_without_proc)
    _take_away(LINUX_ONLY)
    tempfile._O_TMPFILE_WORKS = False
if SYSTEM == "windows":
    _other_ways_of_the_library()
    _take_away(POSIX_ONLY)
    for each in POSIX_MODULES:
        sys.modules[each] = None
    _lines_as_on_windows()
    sys.addaudithook(_strict)
