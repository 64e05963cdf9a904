"""Write the generated files of a checkout; `make docs` runs it in the root directory."""

from __future__ import annotations

import json
from pathlib import Path

from pyjms_broker.settings.reference import broker_reference
from pyjms_broker.settings.sources import broker_schema

if __name__ == "__main__":
    Path("config/broker.yaml").write_text(broker_reference(), encoding="utf-8")
    Path("docs/broker.schema.json").write_text(
        json.dumps(broker_schema(), indent=2) + "\n", encoding="utf-8"
    )
