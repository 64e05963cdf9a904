"""The Grafana dashboard uses metrics that the broker exports."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyjms.jms.destination import Queue
from pyjms_broker.api.context import ConnectionContext
from tests.kit.processes.children import ROOT
from tests.kit.web.sites import web_broker

DASHBOARD: dict[str, Any] = json.loads(
    (ROOT / "config" / "grafana-dashboard.json").read_text(encoding="utf-8")
)

ALERTS: list[dict[str, Any]] = yaml.safe_load(
    (ROOT / "config" / "prometheus-alerts.yaml").read_text(encoding="utf-8")
)["groups"][0]["rules"]
METRIC = r"(?:pyjms|process)_\w+"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # uvicorn has no other


async def test_every_metric_of_the_dashboard_and_the_alerts_exists(tmp_path: Path) -> None:
    async with (
        web_broker(persistent=True, data_directory=tmp_path) as broker,
        broker.client() as client,
    ):
        context = ConnectionContext()
        context.is_broker = True
        broker.service.broker.add_destination(context, Queue("orders"))
        answer = await client.get("/metrics")
    assert answer.status_code == 200
    existing = dict(re.findall(r"^# TYPE (\w+) (\w+)$", answer.text, re.MULTILINE))
    used = set(re.findall(METRIC, json.dumps(DASHBOARD)))
    assert len(used) > 15
    alerts = set(re.findall(METRIC, " ".join(rule["expr"] for rule in ALERTS)))
    assert len(alerts) > 10
    assert alerts - existing.keys() == set()
    assert used - existing.keys() == set()
    rates = set(re.findall(r"rate\((\w+)", json.dumps(DASHBOARD)))
    assert {existing[name] for name in rates} == {"counter"}
    labels = set(re.findall(r"(\w+)=~", json.dumps(DASHBOARD)))
    assert labels - {"job", "instance"} == {"destination"}
    assert 'pyjms_destination_messages{destination="orders"' in answer.text


def test_panels_do_not_overlap_and_have_descriptions() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
        assert panel["type"] == "row" or panel["description"].endswith("."), panel["title"]
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
