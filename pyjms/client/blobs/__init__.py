"""The transfer of the bodies of blob messages, by a strategy for the URL's scheme."""

from pyjms.client.blobs.strategies import BlobStrategy
from pyjms.client.blobs.transfer import PolicyTransfer, new_blob_message

__all__ = ["BlobStrategy", "PolicyTransfer", "new_blob_message"]
