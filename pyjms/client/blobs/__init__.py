"""The transfer of blob message bodies, with one strategy per URL scheme; imported on first use."""

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import homes_of, names_of

if TYPE_CHECKING:
    from pyjms.client.blobs.transfer import BlobStrategy, PolicyTransfer, new_blob_message

__all__ = ["BlobStrategy", "PolicyTransfer", "new_blob_message"]

__getattr__, __dir__ = names_of(
    globals(), homes_of({"pyjms.client.blobs.transfer": " ".join(__all__)})
)
