"""Ends a process in many ways; nothing is flushed by hand."""

import multiprocessing
import os
import signal
import sys
import threading
import time

import llmeval_sdk as llmeval


@llmeval.workflow
def request(name):
    llmeval.annotate(tags={"name": name})
    llmeval.submit_evaluation(label="own", value=0.5, tags={"name": name})
    return name


def child(way):
    request("child")
    if way == "exit":
        sys.exit(0)
    if way == "flush":
        llmeval.flush(5)
    if way == "wait":
        time.sleep(2.5)
    os._exit(0)


def main(way):
    llmeval.configure(exporters=["datadog"], heuristics="off", shutdown_timeout=3.0)
    if way == "normal":
        request("parent")
    elif way == "sys.exit":
        request("parent")
        sys.exit(3)
    elif way == "raise":
        request("parent")
        raise KeyError("the app's own")
    elif way == "sigterm":
        request("parent")
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
    elif way == "sigterm-handled":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
        request("parent")
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
    elif way == "os._exit":
        request("parent")
        llmeval.flush(5)
        os._exit(0)
    elif way == "inside":
        with llmeval.workflow("open"):
            request("parent")
            sys.exit(0)
    elif way.startswith("fork-"):
        request("parent")
        if os.fork() == 0:
            child(way.removeprefix("fork-"))
        os.wait()
    elif way == "forked-parent":
        request("parent")
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
    elif way == "multiprocessing":
        request("parent")
        process = multiprocessing.get_context("fork").Process(target=request, args=("child",))
        process.start()
        process.join()
    elif way == "span-over-fork":
        with llmeval.workflow("around"):
            pid = os.fork()
            if pid == 0:
                request("child")
                llmeval.flush(5)
                os._exit(0)
            os.waitpid(pid, 0)
        request("parent")
    elif way == "thread":
        thread = threading.Thread(target=request, args=("parent",))
        thread.start()


main(sys.argv[1])
