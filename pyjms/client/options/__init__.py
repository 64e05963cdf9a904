"""Options of connection factories and destinations, and the prefetch and redelivery policies."""

from __future__ import annotations

from pyjms.client.options.client_options import ClientKeywords, ClientOptions
from pyjms.client.options.policies import (
    MAX_PREFETCH_SIZE,
    NO_MAXIMUM_REDELIVERIES,
    PrefetchPolicy,
    RedeliveryPolicy,
    RedeliveryPolicyMap,
)

__all__ = [
    "MAX_PREFETCH_SIZE",
    "NO_MAXIMUM_REDELIVERIES",
    "ClientKeywords",
    "ClientOptions",
    "PrefetchPolicy",
    "RedeliveryPolicy",
    "RedeliveryPolicyMap",
]
