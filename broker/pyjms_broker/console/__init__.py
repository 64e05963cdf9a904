"""The web console at /admin: pages for operators, based on the management model.

It is a part of the web site (`pyjms_broker.web`). Templates, one style sheet and two scripts are
all served by the broker: no page needs another site. See docs/console.md.
"""

from __future__ import annotations

from pyjms_broker.console.pages import console_routes

__all__ = ["console_routes"]
