"""The AsyncAPI 3 document of an application, and its page. Guide: docs/asyncapi.md."""
