"""The pages of what broker.yaml says: policies, users and rights, with the YAML of a change."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from pyjms_broker.console.console import Console
from pyjms_broker.console.model.destinations import destination_view
from pyjms_broker.console.model.policies import (
    ATTRIBUTES,
    MOST,
    policies,
    policy_for,
    policy_yaml,
    with_change,
)
from pyjms_broker.console.model.users import rights, rights_yaml, user_page, user_yaml
from pyjms_broker.console.query import PAGE_SIZE, number, require, text


async def settings_page(console: Console, request: Request) -> Response:
    """Show the policies in force, the users with their groups, and the rights of groups."""
    wanted = text(request, "filter").strip()
    web = console.web.configuration
    return console.page(
        request,
        "settings.html",
        title="Settings",
        filter=wanted,
        policies=policies(console.tree),
        users=await user_page(console.tree, wanted, number(request, "page"), PAGE_SIZE),
        rights=rights(console.tree, MOST),
        most=MOST,
        admin_groups=web.admin_groups,
        reader_groups=web.reader_groups,
        user_yaml=user_yaml,
        rights_yaml=rights_yaml,
    )


async def policy_page(console: Console, request: Request) -> Response:
    """Show the policy of a destination, and the YAML of an entry for it, with a change."""
    kind, name = require(request, "kind"), require(request, "name")
    destination = destination_view(console.management, kind, name).destination
    policy = policy_for(console.tree, destination)
    attribute, value = text(request, "attribute"), text(request, "value").strip()
    return console.page(
        request,
        "policy.html",
        title=f"Policy of {name}",
        kind=kind,
        name=name,
        policy=policy,
        attributes=ATTRIBUTES,
        attribute=attribute,
        value=value,
        yaml=policy_yaml(destination, with_change(policy.settings, attribute, value)),
    )
