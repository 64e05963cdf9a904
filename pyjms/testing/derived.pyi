# Made by `python -m tests.kit.stubs`.
# isort: skip_file

from collections.abc import Iterable as Iterable
from dependency_injector import containers as containers
from pathlib import Path as Path
from pyjms.app.application import JmsApplication as JmsApplication
from pyjms.app.container import ApplicationContainer as ApplicationContainer
from pyjms.jms.message import Message as Message
from pyjms.listener.properties import ErrorHandler as ErrorHandler
from pyjms.settings import PyjmsSettings as PyjmsSettings
from pyjms.template.interceptors import (
    HandlerInterceptor as HandlerInterceptor,
    SendInterceptor as SendInterceptor,
)
from typing import Any as Any, TypeVar as TypeVar

class TestAppMembers:
    @property
    def application(self) -> JmsApplication: ...
    def start(
        self,
        *targets: object,
        config: Path | str | None = ...,
        settings: PyjmsSettings | None = ...,
        container: containers.Container | type[ApplicationContainer] | None = ...,
        redelivery_delay: float | None = ...,
        interceptors: Iterable[HandlerInterceptor] = ...,
        send_interceptors: Iterable[SendInterceptor] = ...,
        error_handler: ErrorHandler | None = ...,
    ) -> JmsApplication: ...
    def stop(self, timeout: float = ...) -> None: ...
    def drained(self, name: str, *, raise_errors: bool = ..., timeout: float = ...) -> None: ...
    def messages(self, name: str) -> list[Message]: ...
    def payloads(self, name: str, type: Any = ...) -> list[Any]: ...
    def dead_letters(self, name: str = ...) -> list[Message]: ...
