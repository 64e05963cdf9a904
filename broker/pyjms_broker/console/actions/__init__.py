"""What forms can do, with the question that is asked before it.

Every action is a POST with the session's token, of a user who may change things. (activemq-edges
W5) Those that cannot be undone are asked for on a page of their own, which says how much they
concern; it is computed when the question is asked.
"""

from __future__ import annotations

from typing import Final

from pyjms_broker.console.actions.clients import CLIENT_ACTIONS
from pyjms_broker.console.actions.destinations import DESTINATION_ACTIONS
from pyjms_broker.console.actions.form import Action, Form, Question
from pyjms_broker.console.actions.messages import MESSAGE_ACTIONS
from pyjms_broker.console.actions.networks import NETWORK_ACTIONS

__all__ = ["ACTIONS", "Action", "Form", "Question"]

ACTIONS: Final[dict[str, Action]] = {
    **DESTINATION_ACTIONS,
    **CLIENT_ACTIONS,
    **MESSAGE_ACTIONS,
    **NETWORK_ACTIONS,
}
"""By the last part of the path."""
