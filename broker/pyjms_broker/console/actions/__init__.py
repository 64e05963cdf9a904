"""The actions of forms, with their confirmation questions.

Every action is a POST with the session's token by a user with administrator access. (activemq-edges
W5) Actions that cannot be undone have a confirmation page with the numbers of affected objects at
that time.
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
"""The actions by the last part of the path."""
