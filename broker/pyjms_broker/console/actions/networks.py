"""Actions on network connectors and bridges."""

from __future__ import annotations

from typing import Final

from pyjms_broker.console.actions.form import Action, Form
from pyjms_broker.console.model.networks import bridge_view, network_connector_view

__all__ = ["NETWORK_ACTIONS"]


async def _start(form: Form) -> str:
    name = form.required("name")
    await network_connector_view(form.management, name).invoke("start")
    return f"The network connector {name} connects to its remote brokers."


async def _stop(form: Form) -> str:
    name = form.required("name")
    await network_connector_view(form.management, name).invoke("stop")
    return (
        f"The network connector {name} is stopped. "
        "Messages that it has not forwarded stay in this broker until it is started again."
    )


async def _reset(form: Form) -> str:
    view = bridge_view(form.management, form.required("view"))
    await view.invoke("resetStats")
    return f"The counters of the bridge to {view.get('RemoteBrokerName')} were reset."


NETWORK_ACTIONS: Final[dict[str, Action]] = {
    "start-network-connector": Action(_start, "connections"),
    "stop-network-connector": Action(_stop, "connections"),
    "reset-bridge": Action(_reset, "network"),
}
