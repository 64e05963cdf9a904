"""A listener whose broker is restarted: jobs may be duplicated, so it remembers them."""

from pyjms import jms_listener

done: set[int] = set()


@jms_listener("jobs", id="jobs", concurrency="2-2")
def on_job(job: dict) -> None:
    done.add(job["id"])
    if len(done) == 400:
        print("done all", flush=True)
