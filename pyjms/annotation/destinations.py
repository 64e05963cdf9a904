"""The destination argument of the decorators as text: a name, or a URI for an object."""

from __future__ import annotations

from pyjms.jms.destination import Destination

__all__ = ["destination_text", "destinations_text"]


def destinations_text(destinations: tuple[object, ...], mark: str) -> str:
    """Return the text of one destination: a composite destination, if there are several.

    Raises:
        TypeError: there is none, or an argument is neither a name nor a destination.
        ValueError: options, which apply to all destinations, do not follow the last one.
    """
    if not destinations:
        raise TypeError(f'@{mark} needs a destination: write @{mark}("name")')
    texts = [destination_text(destination, mark) for destination in destinations]
    for text in texts[:-1]:
        if "?" in text:
            raise ValueError(
                f"@{mark}: {text!r} is not the last of several destinations, whose options are "
                "those of all: write them behind the last one, or repeat the mark"
            )
    return ",".join(texts)


def destination_text(destination: object, mark: str) -> str:
    """Return the name as written, or `topic://name?options` of a destination.

    Raises:
        TypeError: it is neither; often the decorator was written without parentheses.
    """
    if isinstance(destination, str):
        return destination
    if isinstance(destination, Destination):
        options = "&".join(f"{name}={value}" for name, value in destination.options.items())
        return f"{destination.qualified_name}?{options}" if options else destination.qualified_name
    if callable(destination):
        name = getattr(destination, "__name__", "handler")
        raise TypeError(f'@{mark} needs a destination: write @{mark}("name") above {name}')
    raise TypeError(f"@{mark} takes a name, a Queue or a Topic, not {type(destination).__name__}")
