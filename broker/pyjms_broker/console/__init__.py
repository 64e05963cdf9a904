"""The web console at /admin: pages on the management model, for operators with a browser.

A part of the web server (`pyjms_broker.web`). Templates, one style sheet and two scripts, all
served from here: no page needs another site. See docs/console.md.
"""

from __future__ import annotations

from pyjms_broker.console.site import console_routes

__all__ = ["console_routes"]
