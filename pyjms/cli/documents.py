"""`pyjms docs`: the AsyncAPI document of an application, as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["docs"]


def docs(
    target: Annotated[
        str, typer.Argument(metavar="MODULE[:APP]", help="The application: a module, or a file.")
    ],
    config: Annotated[
        Path | None, typer.Option("--config", help="The YAML file of the application.")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", metavar="FOLDER", help="The directory for the files.")
    ] = Path(),
    title: Annotated[
        str | None, typer.Option(help="The title of the document. Default: the name of MODULE.")
    ] = None,
    version: Annotated[str, typer.Option(help="The version of the application.")] = "1.0.0",
    description: Annotated[str, typer.Option(help="A description of the application.")] = "",
) -> None:
    """Write the AsyncAPI 3 document of an application: asyncapi.yaml, .json and .html.

    It describes the channels, operations and message types of the listeners. The command does not
    connect to a broker. The HTML page is self-contained and needs no internet access. Passwords and
    user names are omitted.
    """
    import yaml

    from pyjms.asyncapi.document import asyncapi_document
    from pyjms.asyncapi.page import html_page
    from pyjms.cli.loading import load_application, split_target

    application = load_application(target, config)
    name = title or split_target(target)[0]
    document = asyncapi_document(application, title=name, version=version, description=description)
    output.mkdir(parents=True, exist_ok=True)
    texts = {
        "yaml": yaml.safe_dump(document, sort_keys=False, allow_unicode=True),
        "json": json.dumps(document, indent=2, ensure_ascii=False) + "\n",
        "html": html_page(document),
    }
    for suffix, text in texts.items():
        path = output / f"asyncapi.{suffix}"
        path.write_text(text, encoding="utf-8")
        typer.echo(path)
