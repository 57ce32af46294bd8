"""Forked and spawned processes trace and deliver; nothing twice, nobody hangs."""


def test_a_child_delivers_its_own_and_nothing_twice(app):
    """What waited in the parent at the fork stays the parent's."""
    ended = app("""
trace(50, "parent")
pid = os.fork()
if pid == 0:
    trace(50, "child")
    sys.exit(0)
os.waitpid(pid, 0)
trace(50, "after")
""")
    assert (ended.code, ended.quiet) == (0, True), ended.err
    found = ended.requests()
    assert len(found) == len(set(found)) == 150


def test_a_fork_storm_under_threads_deadlocks_nobody(app):
    """300 forks while two threads trace: every child traces, flushes and ends."""
    ended = app(
        """
import faulthandler
trace(1, "first")
stop = threading.Event()
def load():
    while not stop.is_set():
        answer("parent")
        time.sleep(0.001)
threads = [threading.Thread(target=load) for _ in range(2)]
for thread in threads: thread.start()
slowest, stuck = [], 0
for number in range(300):
    begun = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(20, exit=True)
        answer(f"child{number}")
        done = llmeval.flush(15).complete
        os._exit(0 if done else 1)
    slowest.append(time.perf_counter() - begun)
    _, status = os.waitpid(pid, 0)
    stuck += status != 0
stop.set()
for thread in threads: thread.join()
slowest.sort()
print(stuck, slowest[int(len(slowest) * 0.99)] < 0.1)
""",
        timeout=120,
    )
    assert (ended.code, ended.quiet) == (0, True), ended.err
    assert ended.out == "0 True\n"
    children = [request for request in ended.requests() if "child" in request]
    assert len(children) == len(set(children)) == 300


def test_forking_while_a_send_hangs_is_quick(app):
    """Nothing waits for the exporter at a fork."""
    ended = app("""
class Hanging:
    name = "hanging"
    def __init__(self): self.entered = threading.Event()
    def export(self, batch): self.entered.set(); threading.Event().wait()
    def flush(self, timeout): pass
    def close(self, timeout): pass
exporter = Hanging()
llmeval.configure(exporters=[exporter])
answer("q"); exporter.entered.wait(10)
times = []
for _ in range(20):
    begun = time.perf_counter()
    pid = os.fork()
    if pid == 0: os._exit(0)
    times.append(time.perf_counter() - begun)
    os.waitpid(pid, 0)
print(sorted(times)[10] < 0.02)
os._exit(0)
""")
    assert ended.out == "True\n", ended.err


def test_multiprocessing_children_deliver(app, tmp_path):
    """Fork, spawn and forkserver children deliver what they traced when they flush."""
    module = tmp_path / "work.py"
    module.write_text(
        "import llmeval_sdk as llmeval\n"
        "@llmeval.workflow\n"
        "def answer(question): return question\n"
        "def work(name):\n"
        "    for n in range(20): answer(f'{name}{n}')\n"
        "    llmeval.flush(10)\n"
    )
    ended = app(
        f"""
sys.path.insert(0, {str(tmp_path)!r})
import multiprocessing, work
if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        child = context.Process(target=work.work, args=(method,))
        child.start(); child.join(30)
        assert child.exitcode == 0
""",
        PYTHONPATH=str(tmp_path),
        timeout=90,
    )
    assert (ended.code, ended.quiet) == (0, True), ended.err
    found = ended.requests()
    assert len(found) == len(set(found)) == 60
