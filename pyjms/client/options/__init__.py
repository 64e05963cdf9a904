"""Options of connection factories and destinations, and the prefetch and redelivery policies."""

from __future__ import annotations

from pyjms.client.options.blob_policy import BlobTransferPolicy, upload_url
from pyjms.client.options.client_options import ClientOptions
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
    "BlobTransferPolicy",
    "ClientOptions",
    "PrefetchPolicy",
    "RedeliveryPolicy",
    "RedeliveryPolicyMap",
    "upload_url",
]
