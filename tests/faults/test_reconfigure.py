"""Setting up anew and shutting down, from any thread, at any moment: nothing is lost or held up."""

EXPORTER = """
class Counting:
    name = "counting"
    def __init__(self): self.spans, self.closed = 0, False
    def export(self, batch): assert not self.closed; self.spans += len(batch.spans)
    def flush(self, timeout): pass
    def close(self, timeout): self.closed = True
class Slow(Counting):
    name = "slow"
    def __init__(self, seconds): super().__init__(); self.seconds = seconds
    def export(self, batch): time.sleep(self.seconds); super().export(batch)
"""


def test_what_is_traced_while_the_app_sets_up_anew_arrives(app):
    """Two threads make the first records of a set-up that is being replaced; no thread stays behind."""
    ended = app(
        EXPORTER
        + """
exporters = []
def set_up():
    exporters.append(Counting())
    llmeval.configure(exporters=[exporters[-1]])
for _ in range(150):
    set_up()
    threads = [threading.Thread(target=trace, args=(5,)) for _ in range(2)]
    for thread in threads: thread.start()
    set_up()
    for thread in threads: thread.join()
stats = llmeval.flush(30)
dropped = sum(stats.exporters["counting"].dropped.values())
print(stats.complete, stats.spans, sum(each.spans for each in exporters) + dropped, dropped < 10)
until = time.monotonic() + 60
while threading.active_count() > 3 and time.monotonic() < until: time.sleep(0.01)
print(threading.active_count() <= 3)
"""
    )
    assert (ended.code, ended.quiet) == (0, True), ended.err
    assert ended.out == "True 1500 1500 True\nTrue\n"


def test_shutting_down_what_is_ending_already_raises_nothing(app):
    """A replaced set-up whose exporter and judge are slow ends in the background meanwhile."""
    ended = app(
        EXPORTER
        + """
@llmeval.judge
async def slow(record, llm):
    import asyncio
    await asyncio.sleep(60)
llmeval.configure(exporters=[Slow(1)], evaluators=[slow])
trace(1); llmeval.flush(0.1)
llmeval.configure(exporters=[Counting()])
for _ in range(3): llmeval.shutdown(0.3)
print(llmeval.stats().not_run["slow"])
"""
    )
    assert (ended.code, ended.quiet) == (0, True), ended.err
    assert ended.out == "{'shutdown': 1}\n"


def test_a_signal_handler_may_shut_down_inside_a_shutdown(app):
    """It returns at once with the counters, and the one that it interrupted goes on."""
    ended = app(
        EXPORTER
        + """
signal.signal(signal.SIGALRM, lambda *_: print("inner", llmeval.shutdown(600).complete))
llmeval.configure(exporters=[Slow(0.5)])
trace(3)
signal.setitimer(signal.ITIMER_REAL, 0.25)
print("outer", llmeval.shutdown(50).complete)
"""
    )
    assert (ended.code, ended.quiet) == (0, True), ended.err
    assert ended.out == "inner False\nouter True\n"


def test_the_exit_does_not_wait_for_another_threads_shutdown(app):
    """That one may take as long as it was given; the exit has its own deadline."""
    ended = app(
        EXPORTER
        + """
llmeval.configure(exporters=[Slow(600)])
trace(1)
threading.Thread(target=llmeval.shutdown, args=(600,), daemon=True).start()
time.sleep(0.3)
"""
    )
    assert (ended.code, ended.quiet) == (0, True), ended.err
    assert "not delivered in time" in ended.err


def test_an_exporter_that_stays_in_use_is_not_closed(app):
    """The same object in two set-ups, one after the other."""
    ended = app(
        EXPORTER
        + """
exporter = Counting()
llmeval.configure(exporters=[exporter]); trace(1)
llmeval.configure(exporters=[exporter], service_name="another")
until = time.monotonic() + 60
while threading.active_count() > 1 and time.monotonic() < until: time.sleep(0.01)
trace(1)
print(llmeval.flush(10).complete, exporter.spans, exporter.closed)
llmeval.shutdown()
print(exporter.closed)
"""
    )
    assert (ended.code, ended.quiet) == (0, True), ended.err
    assert ended.out == "True 2 False\nTrue\n"


def test_a_shutdown_without_time_is_forgiven_once_all_arrived(app):
    """``complete`` speaks of now, not of a deadline of the past."""
    ended = app(
        EXPORTER
        + """
llmeval.configure(exporters=[Slow(0.5)])
trace(1)
print(llmeval.shutdown(0.1).complete)
llmeval.configure(exporters=[Counting()])
trace(1)
until = time.monotonic() + 60
while llmeval.stats().undelivered and time.monotonic() < until: time.sleep(0.01)
print(llmeval.flush(10).complete)
"""
    )
    assert (ended.code, ended.quiet) == (0, True), ended.err
    assert ended.err.count("not delivered in time") == 1  # when `shutdown` returned
    assert ended.out == "False\nTrue\n"


def test_a_flush_ends_with_a_shutdown_beside_it(app):
    """It does not wait for judges that were given up."""
    ended = app("""
@llmeval.judge
async def slow(record, llm):
    import asyncio
    await asyncio.sleep(60)
llmeval.configure(exporters=["memory"], evaluators=[slow])
trace(1)
waiting = threading.Thread(target=llmeval.flush, args=(50,))
waiting.start()
time.sleep(0.3)
llmeval.shutdown(0.5)
waiting.join(20)
print(waiting.is_alive())
""")
    assert (ended.code, ended.quiet) == (0, True), ended.err
    assert ended.out == "False\n"
