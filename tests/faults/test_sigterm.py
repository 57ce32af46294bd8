"""SIGTERM: what the process holds is delivered, the exit status stays, no handler is replaced."""

import signal

import pytest


KILL = "os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)"
WAITS = {
    "a script": f"trace(300)\n{KILL}",
    "another thread": "trace(300)\nthreading.Timer(0, os.kill, (os.getpid(), signal.SIGTERM)).start(); time.sleep(60)",
    "inside a span": f"trace(299)\nwith llmeval.workflow('answer', request='open') as span: answer('300'); {KILL}",
    "inside flush": "trace(300)\nthreading.Timer(0, os.kill, (os.getpid(), signal.SIGTERM)).start(); llmeval.flush(); time.sleep(60)",
    "an event loop": f"import asyncio\nasync def main():\n    trace(300)\n    {KILL}\nasyncio.run(main())",
}


@pytest.mark.parametrize("where", WAITS)
def test_a_process_that_sigterm_ends_delivers(app, where):
    """With the default action it ends by the signal, and what was traced is in the store."""
    ended = app(WAITS[where])
    assert (ended.code, ended.err) == (-signal.SIGTERM, "")
    assert len(ended.requests()) == 300


OWN = {
    "ignored": ("signal.signal(signal.SIGTERM, signal.SIG_IGN)", 0),
    "a function": ("signal.signal(signal.SIGTERM, lambda *_: print('own'))", 0),
    "a handler in C": (
        "import faulthandler; faulthandler.register(signal.SIGTERM, file=open(os.devnull, 'w'))",
        0,
    ),
}


@pytest.mark.parametrize("own", OWN)
def test_a_handler_of_the_app_is_never_replaced(app, own):
    """Neither one that Python knows nor one that only the kernel knows."""
    code, expected = OWN[own]
    ended = app(f"""{code}
before = signal.getsignal(signal.SIGTERM)
trace(10)
assert signal.getsignal(signal.SIGTERM) is before
os.kill(os.getpid(), signal.SIGTERM)
""")
    assert (ended.code, ended.quiet) == (expected, True), ended.err
    assert len(ended.requests()) == 10


def test_a_second_signal_ends_the_process_at_once(app):
    """While a destination hangs, nobody has to wait for the deadline."""
    ended = app("""
class Hanging:
    name = "hanging"
    def export(self, batch):
        while signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL: time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait()
    def flush(self, timeout): pass
    def close(self, timeout): pass
llmeval.configure(exporters=[Hanging()], shutdown_timeout=60)
trace(10)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
""", timeout=50)  # fmt: skip
    assert ended.code == -signal.SIGTERM


def test_a_forked_child_ends_at_once(app):
    """It inherits the handler, not the records: the parent delivers them, once."""
    ended = app("""
trace(50)
if (pid := os.fork()) == 0:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
print(os.waitpid(pid, 0)[1])
""")
    assert (ended.code, ended.quiet, ended.out) == (0, True, f"{int(signal.SIGTERM)}\n"), ended.err
    assert len(ended.requests()) == 50


STARTS = {
    "os.fork": "if not (pid := os.fork()): os._exit(is_default())\nprint(os.waitpid(pid, 0)[1] >> 8)",
    "a pool": "with multiprocessing.get_context('fork').Pool(1) as pool: print(int(pool.apply(is_default)))",
    "a process": (
        "child = multiprocessing.get_context('fork').Process(target=lambda: sys.exit(is_default()))\n"
        "child.start(); child.join(); print(child.exitcode)"
    ),
}


@pytest.mark.parametrize("start", STARTS)
def test_children_have_the_default_action(app, start):
    """Whoever terminates one never waits for a handler that cannot run while the child waits."""
    ended = app(f"""
import multiprocessing
trace(5)
assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
def is_default():
    trace(1, "child")
    return signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
{STARTS[start]}
""")
    assert (ended.code, ended.quiet, ended.out) == (0, True, "1\n"), ended.err


def test_a_handler_that_calls_the_former_one_goes_on(app):
    """The former one hurries the delivery, and leaves the end to its caller."""
    ended = app("""
trace(50)
former = signal.getsignal(signal.SIGTERM)
def own(number, frame):
    former(number, frame)
    print("goes on", flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, own)
os.kill(os.getpid(), signal.SIGTERM)
""")
    assert (ended.code, ended.quiet, ended.out) == (7, True, "goes on\n"), ended.err
    assert len(ended.requests()) == 50


def test_a_wrapper_that_counts_on_the_former_handler_is_ended_by_it(app):
    """As that of ddtrace does, which is called in the place of ours."""
    ended = app("""
trace(50)
former = signal.getsignal(signal.SIGTERM)
def wrap_signals(number, frame):
    former(number, frame)
wrap_signals.__module__ = "ddtrace.internal.utils.signals"
signal.signal(signal.SIGTERM, wrap_signals)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
""")
    assert (ended.code, ended.err) == (-signal.SIGTERM, "")
    assert len(ended.requests()) == 50


def test_process_1_goes_on_recording(app):
    """Where the system ignores the default action, the signal is taken again."""
    ended = app("""
# As in process 1: the signal that is raised again is blocked in each thread, and then it is gone.
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
trace(20)
handler = signal.getsignal(signal.SIGTERM)
handler(signal.SIGTERM, None)
signal.sigwait([signal.SIGTERM])
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
assert signal.getsignal(signal.SIGTERM) is handler
trace(20, "later")
""")
    assert (ended.code, ended.quiet) == (0, True), ended.err
    assert len(ended.requests()) == 40


def test_what_is_lost_is_said_and_counted_in_the_store(app):
    """A destination that takes nothing costs its records, with a line and a note in the store."""
    ended = app("""
llmeval.configure(exporters=["local", Hanging()])
trace(10)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
""")
    assert ended.code == -signal.SIGTERM
    assert "llmeval at exit: 10 records not delivered in time" in ended.err
    assert ended.lost() == {"hanging": {"shutdown": 10}}
    assert len(ended.requests()) == 10


def test_records_hurry_while_uvicorn_shuts_down(app):
    """Its handler raises the signal again after the shutdown, when no code of ours can run."""
    ended = app("""
class Server:  # has what is read of uvicorn's: the app is imported when its handler is there
    should_exit = False
    def handle_exit(self, number, frame): self.should_exit = True
Server.handle_exit.__module__ = "uvicorn.server"
server = Server()
signal.signal(signal.SIGTERM, server.handle_exit)
llmeval.configure(background_share=0.01)
words = "The roof is made of slate, and the rent is due in May. " * 60
@llmeval.workflow
def answer(question, context=(words,) * 5):
    return words[:600]
trace(3_000)
server.should_exit = True
deadline = time.monotonic() + 60
while llmeval.stats().undelivered and time.monotonic() < deadline: time.sleep(0.01)
os._exit(bool(llmeval.stats().undelivered))
""")
    assert (ended.code, ended.quiet) == (0, True), ended.err
    assert len(ended.requests()) == 3_000


def test_an_exception_of_another_handler_does_not_stop_the_signal(app):
    """As a job's time limit raises it, while the delivery is waited for."""
    ended = app("""
llmeval.configure(exporters=[Hanging()], shutdown_timeout=60)
trace(10)
def alarm(number, frame): raise TimeoutError
signal.signal(signal.SIGALRM, alarm)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
except TimeoutError:
    pass
time.sleep(60)
""")
    assert (ended.code, ended.quiet) == (-signal.SIGTERM, True), ended.err


@pytest.mark.parametrize("when", ["llmeval.shutdown()", "llmeval.shutdown(30)", ""])
def test_the_signal_ends_a_process_that_is_ending(app, when):
    """What the interrupted thread was delivering is delivered, and nobody waits for that thread."""
    ended = app(f"""
class Slow:
    name = "slow"
    def export(self, batch):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.3)
        print("took", len(batch.spans), flush=True)
    def flush(self, timeout): pass
    def close(self, timeout): pass
llmeval.configure(exporters=[Slow()])
trace(10)
{when}
""")
    assert (ended.code, ended.out, ended.quiet) == (-signal.SIGTERM, "took 10\n", True), ended.err


def test_a_process_that_was_set_up_on_a_thread_takes_the_signal_when_it_is_configured(app):
    """The thread could not take it; `configure()` on the main thread can."""
    ended = app("""
thread = threading.Thread(target=trace, args=(50,)); thread.start(); thread.join()
llmeval.configure(background_share=0.4)
trace(50, "later")
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
""")
    assert (ended.code, ended.err) == (-signal.SIGTERM, "")
    assert len(ended.requests()) == 100


def test_what_the_spool_keeps_is_not_noted_as_lost(app, tmp_path):
    """The next process delivers it."""
    ended = app("""
llmeval.configure(exporters=["local", Hanging()])
trace(10)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
""", LLMEVAL_SPOOL=str(tmp_path / "spool"))  # fmt: skip
    assert ended.code == -signal.SIGTERM
    assert ended.lost() in ({}, {"hanging": {}})


def test_the_same_signal_twice_is_one(app):
    """`timeout` of the shell sends it to the process and, in the same moment, to its group."""
    ended = app("""
trace(1_000)
child = os.fork()
if not child:  # from outside, as a shell does
    for _ in range(2): os.kill(os.getppid(), signal.SIGTERM); time.sleep(0.005)
    os._exit(0)
time.sleep(60)
""")
    assert (ended.code, ended.err) == (-signal.SIGTERM, "")
    assert len(ended.requests()) == 1_000
