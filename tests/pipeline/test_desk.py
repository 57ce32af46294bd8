"""The desk: requests are made ready ahead and answers are read when the network has been served."""

import asyncio

from llmeval_sdk.pipeline.deciding import Prefetch


async def until(condition):
    """Let the loop go on until something is true."""
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not become true")


def of_numbers(made, *, ahead):
    """Return a desk that notes which numbers it made ready."""

    def make_ready(number):
        made.append(number)
        return number

    return Prefetch(make_ready, lambda: None, ahead=ahead)


def test_jobs_are_made_ready_in_order_and_not_too_far_ahead():
    """What nobody has taken waits as it was put, so that no text is copied before its time."""
    made = []
    desk = of_numbers(made, ahead=3)

    async def run():
        for number in range(5):
            desk.put(number)
        desk.wake()
        await until(lambda: len(made) == 3)
        for _ in range(20):
            await asyncio.sleep(0)
        assert made == [0, 1, 2]
        assert desk.next() == 0
        await until(lambda: len(made) == 4)
        assert [desk.next() for _ in range(3)] == [1, 2, 3]
        await until(lambda: len(made) == 5)
        assert [desk.next(), desk.next()] == [4, None]

    asyncio.run(run())


def test_the_loop_looks_at_the_network_between_two_pieces_of_work():
    """However many answers wait, other callbacks of the loop run after each of them."""
    turns, seen = 0, []

    async def count():
        nonlocal turns
        while len(seen) < 10:
            turns += 1
            await asyncio.sleep(0)

    async def run():
        desk = of_numbers([], ahead=1)
        for _ in range(10):
            desk.read_later(lambda: seen.append(turns))
        await count()

    asyncio.run(run())
    assert len(set(seen)) == 10


def test_a_request_that_is_ready_is_sent_before_the_answer_is_read():
    """A slot of the server is filled again at once: sending takes several turns of the loop."""
    events = []

    async def run():
        desk = of_numbers([], ahead=2)
        desk.put(1)
        desk.put(2)
        desk.wake()
        await until(lambda: len(desk._ready) == 2)
        assert desk.next() == 1
        desk.read_later(lambda: events.append("read"))
        for _ in range(5):
            await asyncio.sleep(0)
        events.append("sent")
        await until(lambda: len(events) == 2)

    asyncio.run(run())
    assert events == ["sent", "read"]


def test_work_goes_on_after_an_exception():
    """One answer whose reading raises costs no other answer."""
    seen = []

    def fail():
        raise ValueError("unreadable")

    async def run():
        asyncio.get_running_loop().set_exception_handler(lambda _, about: seen.append(about))
        desk = of_numbers([], ahead=1)
        desk.read_later(fail)
        desk.read_later(lambda: seen.append("read"))
        await until(lambda: "read" in seen)

    asyncio.run(run())
    assert isinstance(seen[0]["exception"], ValueError)


def test_a_burst_tells_the_loop_once():
    """Each call from another thread costs a write to a socket; the first one is enough."""
    made = []
    desk = of_numbers(made, ahead=9)
    assert [desk.put(number) for number in range(3)] == [True, False, False]

    async def run():
        desk.wake()
        await until(lambda: made == [0, 1, 2])
        assert desk.put(3)

    asyncio.run(run())
