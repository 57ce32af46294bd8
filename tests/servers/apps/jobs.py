"""The service as a batch job: processes of every kind while threads of the parent trace."""

import multiprocessing
import sys
import threading
from concurrent.futures import ProcessPoolExecutor

from traced import answer, serve


def several(names):
    return [serve(name) for name in names]


def main(method):
    context = multiprocessing.get_context(method)
    over = threading.Event()
    traced = []

    def beside(thread):
        number = 0
        # Spawned processes start slowly on a busy machine, which must deliver all this in time too.
        while not over.wait(0.02 if number < 200 else 0.2):
            answer(f"parent-{thread}-{number}")
            number += 1
        traced.extend(f"parent-{thread}-{each}" for each in range(number))

    threads = [threading.Thread(target=beside, args=(thread,)) for thread in range(2)]
    for thread in threads:
        thread.start()
    jobs = [
        [f"{where}-{job}-{n}" for n in range(5)]
        for where in ("pool", "executor")
        for job in range(8)
    ]
    single = [context.Process(target=several, args=([f"process-{n}"],)) for n in range(4)]
    for process in single:
        process.start()
    pool = context.Pool(2, maxtasksperchild=2)
    changed = pool.map(several, jobs[:8], chunksize=1)
    pool.close()
    pool.join()
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        changed += executor.map(several, jobs[8:])
    for process in single:
        process.join(30)
    over.set()
    for thread in threads:
        thread.join()
    assert [process.exitcode for process in single] == [0] * 4
    assert not any(each for job in changed for each in job)
    traced.extend(name for job in jobs for name in job)
    traced.extend(f"process-{n}" for n in range(4))
    print("\n".join(traced))


if __name__ == "__main__":
    main(sys.argv[1])
