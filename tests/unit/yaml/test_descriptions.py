"""The docstrings of fields are the descriptions in the JSON schema of settings."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, Field

from pyjms.configuration.section import DescribedModel, field_descriptions


class Limits(DescribedModel):
    """Limits of a queue."""

    depth: int = 10
    """The most messages
    that a queue keeps."""
    age: int = 5
    rate: int = Field(default=1, alias="per_second")
    """The most messages in a second."""


class Own(DescribedModel):
    depth: Annotated[int, Field(description="Of the type.")] = 10
    """Of the field."""
    shown: int = Field(default=1, description="Given.")
    """Not used."""
    NOT_A_FIELD: ClassVar[int] = 3
    """Not a description."""


class Derived(Limits):
    age: int = 6
    """The longest stay in seconds."""
    limits: Limits = Limits()
    """Limits of the others."""


def properties(model: type[BaseModel]) -> dict[str, Any]:
    found: dict[str, Any] = model.model_json_schema()["properties"]
    return {name: each.get("description") for name, each in found.items()}


def test_docstrings_are_descriptions() -> None:
    assert properties(Limits) == {
        "depth": "The most messages\nthat a queue keeps.",
        "age": None,
        "per_second": "The most messages in a second.",
    }


def test_inherited_fields_keep_their_descriptions() -> None:
    assert properties(Derived) == {
        **properties(Limits),
        "age": "The longest stay in seconds.",
        "limits": "Limits of the others.",
    }
    assert field_descriptions(Derived)["rate"] == "The most messages in a second."


def test_a_given_description_takes_precedence() -> None:
    assert properties(Own)["shown"] == "Given."
    assert field_descriptions(Own).keys() == {"depth", "shown"}


def test_classes_in_functions_and_classes() -> None:
    class Inner(DescribedModel):
        size: int = 1
        """In bytes."""

        class Nested(DescribedModel):
            size: int = 2
            """In messages."""

    assert properties(Inner) == {"size": "In bytes."}
    assert properties(Inner.Nested) == {"size": "In messages."}


def test_a_class_without_source_has_no_descriptions() -> None:
    namespace: dict[str, Any] = {"__name__": "no_such_module", "DescribedModel": DescribedModel}
    exec('class Made(DescribedModel):\n    size: int = 1\n    """Bytes."""\n', namespace)
    assert properties(namespace["Made"]) == {"size": None}
