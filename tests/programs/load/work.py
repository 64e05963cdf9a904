"""A handler that is running when SIGTERM arrives."""

import time

from pyjms import jms_listener


@jms_listener("load.jobs", id="jobs", concurrency="4-4")
def on_job(job: dict) -> None:
    time.sleep(0.01)  # the work
    print(f"job {job['id']}\n", end="", flush=True)  # one write: threads print at the same time
