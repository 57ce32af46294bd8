"""Which exceptions are ours to swallow, and which belong to whoever interrupted us."""

import functools
import signal

import pytest
from strangers import installed

from llmeval_sdk.process import shield
from llmeval_sdk.process.shield import is_ours


LIBRARY = """
import functools
import signal

class Limit(Exception):
    pass

def ambiguous(*_):
    raise ValueError("the truth value of a Series is ambiguous")

def handler(signum, frame):
    raise Limit

def deep(signum, frame):
    _raise()

def _raise():
    raise Limit

class Penalty:
    def handle(self, signum, frame):
        raise Limit

    def __call__(self, signum, frame):
        raise Limit

def restores_the_former(signum, frame):
    signal.signal(signum, signal.SIG_DFL)
    raise Limit

def forgets_its_arguments(*_):
    del _
    raise Limit

def decorated(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper
"""


@pytest.fixture
def library(tmp_path):
    return installed(tmp_path, LIBRARY)


@pytest.fixture
def struck():
    """Return what calls a piece of our code that a signal interrupts, and says whether it raised."""
    before = signal.getsignal(signal.SIGUSR1)

    def strike(handler):
        signal.signal(signal.SIGUSR1, handler)
        try:
            signal.raise_signal(signal.SIGUSR1)
            sum(range(1_000))
        except Exception as error:
            return not is_ours(error)
        return False

    yield strike
    signal.signal(signal.SIGUSR1, before)


def test_what_code_raises_that_we_called_is_ours_wherever_it_stands(library):
    """A comparison, a truth value or an iterator of another library is called by us alone."""
    for call in (library.ambiguous, lambda: [].index(1), lambda: 1 / 0, lambda: sorted([1, ""])):
        with pytest.raises((ValueError, ZeroDivisionError, TypeError)) as caught:
            call()
        assert is_ours(caught.value), call
    assert is_ours(ValueError("which was never raised"))


HANDLERS = {
    "function": lambda library: library.handler,
    "function that calls": lambda library: library.deep,
    "method": lambda library: library.Penalty().handle,
    "callable object": lambda library: library.Penalty(),
    "partial": lambda library: functools.partial(library.handler),
    "decorated": lambda library: library.decorated(library.handler),
    "replaced before it raised": lambda library: library.restores_the_former,
    "without its arguments": lambda library: library.forgets_its_arguments,
    "of the app": lambda _: lambda *_: 1 / 0,
    "partial of the app": lambda _: functools.partial(lambda name, *_: 1 / 0, "x"),
}


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_what_a_signal_handler_raises_is_not_ours(library, struck, handler):
    """A task queue's time limit strikes wherever it likes, also inside our code."""
    assert struck(handler(library))


def test_a_call_with_a_number_and_a_frame_is_no_signal_handler(library):
    """Only the interpreter calls a handler with the frame that it interrupted."""
    import sys

    def keeps_a_frame(number):
        frame = sys._getframe(1)
        raise ValueError((number, frame))

    with pytest.raises(ValueError, match="frame") as caught:
        keeps_a_frame(int(signal.SIGUSR1))
    assert is_ours(caught.value)


def test_what_is_ours_is_counted_and_what_is_not_is_left_to_the_caller(library, struck):
    """`swallow` counts what it takes; False says that the exception must be raised again."""
    before = shield.caught.snapshot().get("test", 0)
    with pytest.raises(ValueError, match="ambiguous") as caught:
        library.ambiguous()
    assert shield.swallow("test", caught.value)
    assert shield.caught.snapshot()["test"] == before + 1
