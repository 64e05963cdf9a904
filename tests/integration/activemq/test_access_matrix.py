"""What ActiveMQ 5.17.2 allows each role: the referee of the matrix that our broker passes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.brokers.access_matrix import OPERATIONS, expected, found, java_arguments
from tests.kit.processes.children import accepted_url, started
from tests.kit.servers.java_brokers import ACTIVEMQ
from tests.kit.servers.java_programs import JavaProgram


@pytest.fixture
def secured_activemq(java_program: JavaProgram, tmp_path: Path) -> Iterator[str]:
    log = tmp_path / "log"
    with started([*java_program(ACTIVEMQ), "SecuredBroker", *java_arguments()], log) as child:
        yield accepted_url(child, log).replace("localhost", "127.0.0.1")


@pytest.mark.fact("activemq-edges SE4")
@pytest.mark.fact("activemq-edges SE5")
@pytest.mark.fact("activemq-edges SE6")
async def test_activemq_allows_what_the_matrix_says(secured_activemq: str) -> None:
    """One test, since ActiveMQ's answers depend on what was done to it before."""
    for operation in OPERATIONS:
        outcomes = await found(secured_activemq, operation)
        assert outcomes == expected(operation, of_activemq=True), operation
