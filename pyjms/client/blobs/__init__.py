"""The transfer of blob message bodies, with one strategy per URL scheme."""

from pyjms.client.blobs.transfer import BlobStrategy, PolicyTransfer, new_blob_message

__all__ = ["BlobStrategy", "PolicyTransfer", "new_blob_message"]
