"""The section `blob_transfer_policy` of a broker in application.yaml."""

from __future__ import annotations

from pydantic import Field, field_validator

from pyjms.client.options import BlobTransferPolicy, upload_url
from pyjms.errors import JMSException
from pyjms.settings.section import Section

__all__ = ["BlobTransferSettings"]


class BlobTransferSettings(Section):
    """The storage of the bodies of blob messages. ActiveMQ: BlobTransferPolicy."""

    upload_url: str | None = None
    """The URL of the upload directory: file:, http:, https:, or a scheme that a package adds."""
    broker_upload_url: str | None = None
    """The upload directory if upload_url is not set."""
    default_upload_url: str | None = None
    """The upload directory if neither is set; not set: http://localhost:8080/uploads/."""
    buffer_size: int | None = Field(default=None, ge=1)
    """Size of the buffer for reading and writing, in bytes; not set: 131072."""

    @field_validator("upload_url", "broker_upload_url", "default_upload_url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        try:
            return None if url is None else upload_url(url)
        except JMSException as error:
            raise ValueError(str(error)) from error

    def apply(self, policy: BlobTransferPolicy) -> None:
        """Copy the configured values to a policy; its other values stay."""
        for name, value in self.model_dump(exclude_none=True).items():
            setattr(policy, name, value)
