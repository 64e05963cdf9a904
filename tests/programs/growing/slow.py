import sys
import time

from pyjms import jms_listener


@jms_listener("jobs.slow", id="slow", concurrency="3-10")
def on_job(job: dict) -> None:
    time.sleep(0.02)
    sys.stdout.write(f"done {job['n']}\n")  # by several threads: print writes twice
    sys.stdout.flush()
