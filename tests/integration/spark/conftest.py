"""Fixtures of this folder's tests."""

import pytest

pytest.importorskip("pyspark")

from tests.kit.clients.messages import send_texts_fixture, take_texts_fixture
from tests.kit.spark.brokers import broker, broker_child
from tests.kit.spark.runs import (
    driver,
    finish,
    kills,
    outage,
    pytest_generate_tests,
    quick_java,
    run_driver,
    run_killed,
)
