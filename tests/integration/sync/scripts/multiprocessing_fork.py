"""Workers forked by multiprocessing, which use the templates of the module that forks them."""

import multiprocessing
import os
import sys
import threading

import pyjms

template = pyjms.JmsTemplate(
    pyjms.CachingConnectionFactory(pyjms.ConnectionFactory(sys.argv[1])), receive_timeout=10
)

# A worker may be ended before the broker has its last acknowledgement: each run has its queues.
RUN = os.getpid()
WORKERS, PARENT = f"scripts.workers.{RUN}", f"scripts.parent.{RUN}"


def work(number: int) -> int:
    template.convert_and_send(WORKERS, {"n": number})
    return template.receive_and_convert(WORKERS)["n"]


if __name__ == "__main__":
    assert work(0) == 0
    stop = threading.Event()

    def send_all_the_time() -> None:
        while not stop.is_set():
            template.convert_and_send(PARENT, "x")

    # the fork finds the loop and its locks at work
    thread = threading.Thread(target=send_all_the_time)
    thread.start()
    with multiprocessing.get_context("fork").Pool(3) as pool:
        assert sorted(pool.map(work, range(20), chunksize=1)) == list(range(20))
    stop.set()
    thread.join()
    assert template.receive_and_convert(PARENT) == "x"
    print("done")
