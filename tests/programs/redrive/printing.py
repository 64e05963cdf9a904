from pathlib import Path

from pyjms import jms_listener


@jms_listener("pages", id="pages")
def on_page(page: dict) -> None:
    if page["n"] == 2 and not Path("repaired").exists():
        raise ConnectionError("no printer")
    print(f"printed {page['n']}", flush=True)
