"""application.yaml: keys, defaults, sources, errors."""

from __future__ import annotations

import json
import logging.config
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import ConfigurationException
from pyjms.settings import PyjmsSettings, load_settings, settings_schema
from pyjms.settings.spring import OUR_NAMES
from pyjms.spark import Pipeline
from tests.kit.documents import parsed

ROOT = Path(__file__).parents[3]


def load(tmp_path: Path, text: str, **environ: str) -> PyjmsSettings:
    path = tmp_path / "application.yaml"
    path.write_text(text, encoding="utf-8")
    return load_settings(path, environ=environ)


def problem(tmp_path: Path, text: str, **environ: str) -> ConfigurationException:
    with pytest.raises(ConfigurationException) as caught:
        load(tmp_path, text, **environ)
    return caught.value


def default(path: str) -> Any:
    value: Any = PyjmsSettings()
    for key in path.split("."):
        value = getattr(value, key)
    return value


@pytest.mark.fact(
    "spring-jms 8/spring.jms.pub-sub-domain",
    "spring-jms 8/spring.jms.subscription-durable",
    "spring-jms 8/spring.jms.client-id",
    "spring-jms 8/spring.jms.cache.enabled",
    "spring-jms 8/spring.jms.listener.session.transacted",
    "spring-jms 8/spring.jms.template.default-destination",
    "spring-jms 8/spring.jms.cache.consumers",
    "spring-jms 8/spring.jms.cache.producers",
    "spring-jms 8/spring.jms.cache.session-cache-size",
    "spring-jms 8/spring.jms.listener.auto-startup",
    "spring-jms 8/spring.jms.listener.max-messages-per-task",
    "spring-jms 8/spring.jms.template.delivery-mode",
    "spring-jms 8/spring.jms.template.priority",
    "spring-jms 8/spring.jms.template.time-to-live",
    "spring-jms 8/spring.activemq.user, .password",
    "spring-jms 8/spring.activemq.embedded.enabled",
    "spring-jms 8/spring.activemq.close-timeout",
    "spring-jms 8/spring.activemq.non-blocking-redelivery",
    "spring-jms 8/spring.jms.template.session.acknowledge-mode / .transacted",
)
@pytest.mark.parametrize(
    ("path", "value", "text", "read"),
    [
        ("jms.pub_sub_domain", False, "true", True),
        ("jms.subscription_durable", False, "true", True),
        ("jms.client_id", None, "me", "me"),
        ("jms.cache.enabled", True, "false", False),
        ("jms.cache.consumers", False, "true", True),
        ("jms.cache.producers", True, "false", False),
        ("jms.cache.session_cache_size", 1, "10", 10),
        ("jms.listener.auto_startup", True, "false", False),
        ("jms.listener.max_messages_per_task", None, "5", 5),
        ("jms.listener.recovery_interval", None, "5s", 5.0),
        ("jms.listener.cache_level", None, "consumer", "consumer"),
        ("jms.listener.session.transacted", None, "false", False),
        ("jms.listener.session.acknowledge_mode", AcknowledgeMode.AUTO, "client", AcknowledgeMode.CLIENT),
        ("jms.template.default_destination", None, "orders", "orders"),
        ("jms.template.delivery_mode", None, "non-persistent", DeliveryMode.NON_PERSISTENT),
        ("jms.template.delivery_mode", None, "persistent", DeliveryMode.PERSISTENT),
        ("jms.template.priority", None, "9", 9),
        ("jms.template.time_to_live", None, "36h", 129600.0),
        ("jms.template.session.acknowledge_mode", AcknowledgeMode.AUTO, "dups_ok", AcknowledgeMode.DUPS_OK),
        ("jms.template.session.transacted", False, "true", True),
        ("activemq.broker_url", None, "tcp://h:1", "tcp://h:1"),
        ("activemq.user", None, "12", "12"),
        ("activemq.embedded.enabled", True, "false", False),
        ("activemq.close_timeout", 15.0, "1s", 1.0),
        ("activemq.send_timeout", None, "1s", 1.0),
        ("activemq.non_blocking_redelivery", False, "true", True),
        ("spark.master", "local[*,4]", "spark://h:7077", "spark://h:7077"),
        ("spark.conf", {}, "{spark.ui.enabled: true, spark.sql.shuffle.partitions: 8}",
         {"spark.ui.enabled": "true", "spark.sql.shuffle.partitions": "8"}),
        ("spark.checkpoint_root", "./checkpoints", "/shared", "/shared"),
        ("spark.java", "auto", "bundled", "bundled"),
        ("spark.aot_cache", False, "true", True),
        ("spark.linked_home", True, "false", False),
        ("spark.drain_timeout", 30.0, "2m", 120.0),
        ("spark.restart.initial_interval", 1.0, "500ms", 0.5),
        ("spark.restart.multiplier", 2.0, "1.5", 1.5),
        ("spark.restart.max_interval", 60.0, "5m", 300.0),
        ("spark.restart.max_attempts", 10, "null", None),
        ("spark.restart.poison_after", 3, "1", 1),
    ],
)  # fmt: skip
def test_defaults_and_values(
    tmp_path: Path, path: str, value: object, text: str, read: object
) -> None:
    assert default(path) == value
    nested = "".join(f"{'  ' * depth}{key}:\n" for depth, key in enumerate(path.split(".")))
    settings: Any = load(tmp_path, f"{nested.rstrip()} {text}")
    for key in path.split("."):
        settings = getattr(settings, key)
    assert settings == read


@pytest.mark.fact(
    "spring-jms 8/spring.jms.listener.min-concurrency",
    "spring-jms 8/spring.jms.listener.max-concurrency",
)
@pytest.mark.parametrize(
    ("least", "most", "concurrency"),
    [("null", "null", None), ("3", "null", "3-3"), ("null", "7", "1-7"), ("3", "7", "3-7")],
)
def test_concurrency(tmp_path: Path, least: str, most: str, concurrency: str | None) -> None:
    text = f"jms: {{listener: {{min_concurrency: {least}, max_concurrency: {most}}}}}"
    assert load(tmp_path, text).jms.listener.concurrency() == concurrency


@pytest.mark.fact(
    "spring-jms 8/spring.jms.listener.receive-timeout",
    "spring-jms 8/spring.jms.template.receive-timeout",
    "spring-jms 8/spring.activemq.send-timeout",
)
def test_timeouts_have_springs_meaning(tmp_path: Path) -> None:
    assert default("jms.listener.receive_timeout") == 1.0
    assert default("jms.template.receive_timeout") is None  # for ever
    assert default("activemq.send_timeout") is None
    text = "jms: {{listener: {{receive_timeout: {0}}}, template: {{receive_timeout: {0}}}}}"
    for written, seconds in (("-1", 0.0), ("0", None), ("250ms", 0.25)):
        settings = load(tmp_path, text.format(written))
        assert settings.jms.listener.receive_timeout == seconds
        assert settings.jms.template.receive_timeout == seconds
    assert load(tmp_path, "activemq: {send_timeout: 0}").activemq.send_timeout is None


@pytest.mark.fact("spring-jms 8/spring.jms.listener.session.acknowledge-mode")
@pytest.mark.parametrize(
    ("text", "mode"),
    [("auto", 1), ("AUTO", 1), ("client", 2), ("dups_ok", 3), ("DUPS-OK", 3), ("dupsok", 3), ("2", 2), ("4", 4)],
)  # fmt: skip
def test_acknowledge_modes(tmp_path: Path, text: str, mode: int) -> None:
    assert default("jms.listener.session.acknowledge_mode") is AcknowledgeMode.AUTO
    section = "jms: {{listener: {{session: {{acknowledge_mode: {}}}}}}}"
    assert load(tmp_path, section.format(text)).jms.listener.session.acknowledge_mode == mode
    for wrong in ("maybe", "99"):
        assert (
            f"'{wrong}' is neither a known acknowledge mode (auto, client, or dups_ok) nor an "
            "integer value" in str(problem(tmp_path, section.format(wrong)))
        )


@pytest.mark.fact(
    "spring-jms 8/spring.jms.template.qos-enabled",
    "spring-jms 8/spring.jms.template.delivery-delay",
)
@pytest.mark.parametrize(
    ("keys", "enabled"),
    [("", False), ("priority: 0", True), ("time_to_live: 0", True), ("delivery_mode: persistent", True),
     ("delivery_delay: 5s", False), ("priority: 5, qos_enabled: false", False), ("qos_enabled: true", True)],
)  # fmt: skip
def test_explicit_qos(tmp_path: Path, keys: str, enabled: bool) -> None:
    template = load(tmp_path, f"jms: {{template: {{{keys}}}}}").jms.template
    assert template.explicit_qos_enabled() is enabled
    assert default("jms.template.delivery_delay") is None


def test_modes_may_be_numbers_of_the_enumerations() -> None:
    settings = PyjmsSettings.model_validate(
        {"jms": {"template": {"delivery_mode": DeliveryMode.NON_PERSISTENT}}}
    )
    assert settings.jms.template.delivery_mode is DeliveryMode.NON_PERSISTENT


@pytest.mark.fact("spring-jms 8/spring.activemq.broker-url", "spring-jms 8.1.1")
def test_the_broker_url(tmp_path: Path) -> None:
    url = PyjmsSettings().activemq.effective_broker_url()
    # and a scheduler, which Spring Boot's broker has not
    assert url == "vm://localhost?broker.persistent=false" + "&broker.schedulerSupport=true"
    network = load(tmp_path, "activemq: {embedded: {enabled: false}}").activemq
    assert network.effective_broker_url() == "tcp://localhost:61616"
    named = load(tmp_path, "activemq: {broker_url: 'tcp://h:1', embedded: {enabled: false}}")
    assert named.activemq.effective_broker_url() == "tcp://h:1"
    assert PyjmsSettings().with_broker_url("vm://x").activemq.effective_broker_url() == "vm://x"
    assert default("activemq.broker_url") is None


def test_passwords_are_never_shown(tmp_path: Path) -> None:
    settings = load(tmp_path, "activemq: {password: 123456}\nbrokers: {b: {password: s3cret}}")
    assert settings.activemq.password is not None
    assert settings.activemq.password.get_secret_value() == "123456"
    shown = repr(settings) + str(settings) + json.dumps(settings.model_dump(mode="json"))
    assert "123456" not in shown
    assert "s3cret" not in shown


def test_named_brokers_listeners_levels_and_free_keys(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        """
        brokers: {reports: {broker_url: 'tcp://r:1', user: me}}
        listeners: {orders: {concurrency: 5, auto_startup: false}}
        logging: {root: info, pyjms.client: DEBUG}
        app: {deep: {er: [1, x]}}
        """,
    )
    assert settings.brokers["reports"].effective_broker_url() == "tcp://r:1"
    assert settings.listeners["orders"].model_dump(exclude_unset=True) == {
        "concurrency": "5",
        "auto_startup": False,
    }
    assert settings.logging.levels == {"root": "INFO", "pyjms.client": "DEBUG"}
    assert settings.app == {"deep": {"er": [1, "x"]}}


def test_pipelines_of_sql_and_changes_to_decorated_ones(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        """
        pipelines:
          join:
            source: {flights: F, weather: W}
            schema: {flights: origin STRING}
            sql: SELECT * FROM flights
            sink: OUT
          delays: {trigger: 500ms, options: {failOnDataLoss: false, maxBytesPerTrigger: 4096}}
        """,
        PYJMS_PIPELINES__DELAYS__SINK="other",
    )
    assert settings.pipelines["join"].values() == {
        "source": {"flights": "F", "weather": "W"},
        "schema": {"flights": "origin STRING"},
        "sql": "SELECT * FROM flights",
        "sink": "OUT",
    }
    assert settings.pipelines["delays"].values() == {
        "trigger": 0.5,
        "sink": "other",
        "options": {"failOnDataLoss": "false", "maxBytesPerTrigger": "4096"},
    }
    shown = yaml.safe_dump(settings.model_dump(mode="json", by_alias=True), sort_keys=False)
    assert load(tmp_path, shown).model_dump() == settings.model_dump()


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        PyjmsSettings().jms.listener.auto_startup = False  # type: ignore[misc]


def test_defaults_need_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYJMS_JMS__CLIENT_ID", "x")
    assert PyjmsSettings().jms.client_id is None


def test_the_search_order_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = {}
    for number, name in enumerate(
        ["given.yaml", "env.yaml", "application.yaml", "config/application.yaml"]
    ):
        files[name] = tmp_path / name
        files[name].parent.mkdir(exist_ok=True)
        files[name].write_text(f"app: {{from: {number}}}")

    def found(config: Path | None, **environ: str) -> object:
        return load_settings(config, environ=environ).app.get("from")

    assert found(files["given.yaml"], PYJMS_CONFIG=str(files["env.yaml"])) == 0
    assert found(None, PYJMS_CONFIG=str(files["env.yaml"])) == 1
    assert found(None) == 2
    files["application.yaml"].unlink()
    assert found(None) == 3
    files["config/application.yaml"].unlink()
    assert found(None) is None
    with pytest.raises(ConfigurationException, match="cannot be read"):
        found(None, PYJMS_CONFIG="missing.yaml")
    with pytest.raises(ConfigurationException, match=r"there is no application\.yaml"):
        found(None, PYJMS_PROFILES="test")


def test_profiles_and_environment(tmp_path: Path) -> None:
    (tmp_path / "application-test.yaml").write_text("jms: {client_id: test, pub_sub_domain: true}")
    settings = load(
        tmp_path,
        "jms: {client_id: base, cache: {consumers: true}}",
        PYJMS_PROFILES="test",
        PYJMS_JMS__CLIENT_ID="environment",
        PYJMS_JMS__LISTENER__MAX_CONCURRENCY="10",
        PYJMS_LISTENERS__ORDERS__AUTO_STARTUP="false",
        PYJMS_BROKER__PERSISTENT="false",
    )
    assert settings.jms.client_id == "environment"
    assert settings.jms.pub_sub_domain is True
    assert settings.jms.cache.consumers is True
    assert settings.jms.listener.concurrency() == "1-10"
    assert settings.listeners["orders"].auto_startup is False
    path = tmp_path / "application.yaml"
    assert load_settings(path, profiles=["test"], environ={}).jms.client_id == "test"
    assert load_settings(path, profiles=[], environ={"PYJMS_PROFILES": "x"}).jms.client_id == "base"


def test_placeholders(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        "jms: {client_id: '${NAME:me}-${app.region}', cache: {session_cache_size: '${size}'}}\n"
        "activemq: {user: '${USER_NAME}'}\napp: {region: EU, size: 3}",
        USER_NAME="joe",
    )
    assert settings.jms.client_id == "me-EU"
    assert settings.jms.cache.session_cache_size == 3
    assert settings.activemq.user == "joe"
    assert settings.resolve_placeholders("orders.${region}.${USER_NAME}") == "orders.EU.joe"
    with pytest.raises(ConfigurationException, match="unknown"):
        settings.resolve_placeholders("${nothing}")


def test_placeholders_of_settings_made_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGION", "EU")
    settings = PyjmsSettings.model_validate(
        {"jms": {"client_id": "me"}, "activemq": {"password": "p"}, "app": {"queue": "q"}}
    )
    assert settings.resolve_placeholders("${queue}.${REGION}.${jms.client_id}") == "q.EU.me"
    with pytest.raises(ConfigurationException, match="unknown"):
        settings.resolve_placeholders("${activemq.password}")


@pytest.mark.fact(
    "spring-jms 8/spring.activemq.pool.maximum-active-session-per-connection",
    "spring-jms 8/spring.activemq.packages.trust-all / .trusted",
    "spring-jms 8/spring.jms.jndi-name",
)
@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [("jms:\n  listenr: {}", 2, "jms.listenr: there is no such setting; did you mean jms.listener?"),
     ("jms:\n  listener:\n    max_concurrncy: 5", 3, "did you mean jms.listener.max_concurrency?"),
     ("\nspring:\n  jms:\n    listener:\n      max-concurrency: 5", 5, "Spring Boot's spring.jms.listener.max-concurrency is jms.listener.max_concurrency here"),
     ("spring.jms.listener.max-concurrency: 5", 1, "spring.jms.listener.max-concurrency is jms.listener.max_concurrency here"),
     ("jms:\n  listener:\n    maxConcurrency: 5", 3, "jms.listener.maxConcurrency is jms.listener.max_concurrency here"),
     ("jms: {pub-sub-domain: true}", 1, "jms.pub-sub-domain is jms.pub_sub_domain here"),
     ("spring: {jms: {listener: {concurrency: 3}}}", 1, "is jms.listener.min_concurrency here"),
     ("spring: {activemq: {in-memory: true}}", 1, "is activemq.embedded.enabled here"),
     ("spring: {activemq: {packages: {trust-all: true}}}", 1, "objects are never unpickled"),
     ("spring: {activemq: {pool: {block-if-full: true}}}", 1, "is activemq.pool.block_if_full here"),
     ("spring: {activemq: {pool: {maximum-active-session-per-connection: 5}}}", 1, "is activemq.pool.max_sessions_per_connection here"),
     ("spring: {jms: {jndi-name: x}}", 1, "no JNDI in Python"),
     ("logging: {level: {root: INFO}}", 1, "logging.level"),
     ("brokers: {x: {broker-url: y}}", 1, "did you mean brokers.x.broker_url?"),
     ("listeners: {x: {concurrncy: 3}}", 1, "did you mean listeners.x.concurrency?"),
     ("jms: {listener: {receive_timeout: 30000}}", 1, "it is 30000ms to Spring and 30000s to Python"),
     ("jms: {listener: {min_concurrency: 5, max_concurrency: 3}}", 1, "max_concurrency (3) is less than min_concurrency (5)"),
     ("jms: {listener: {min_concurrency: 0}}", 1, "greater than or equal to 1"),
     ("jms: {template: {priority: 10}}", 1, "less than or equal to 9"),
     ("jms: {template: {delivery_mode: often}}", 1, "'often' is neither persistent nor non_persistent"),
     ("logging: {root: LOUD}", 1, "'CRITICAL', 'ERROR'"),
     ("jms: {pub_sub_domain: no}", 1, "boolean to YAML 1.1"),
     ("spark: {master: local, driver: x}", 1, "spark.driver: there is no such setting"),
     ("spark: {drain_timeout: 30}", 1, "30 has no unit"),
     ("spark: {restart: {poison_after: 0}}", 1, "greater than or equal to 1"),
     ("spark: {restart: {max_interval: 500ms}}", 1, "max_interval (0.5s) is less than initial_interval (1s)"),
     ("pipelines: {delays: {schemas: x}}", 1, "did you mean pipelines.delays.schema?"),
     ("pipelines: {delays: {output_mode: all}}", 1, "'append', 'update' or 'complete'"),
     ("pipelines: {delays: {trigger: 2}}", 1, "2 has no unit"),
     ("jms: 5", 1, "jms: Input should be"),
     ("whatever: 1", 1, "the keys are jms, activemq, lifecycle, brokers, listeners, observability, health, spark, pipelines, logging, app")],
)  # fmt: skip
def test_errors(tmp_path: Path, text: str, line: int, reason: str) -> None:
    error = problem(tmp_path, text)
    assert reason in str(error)
    assert error.source == str(tmp_path / "application.yaml")
    assert error.line == line
    assert str(error).startswith(f"{error.source}:{line}: ")


def test_errors_in_the_environment(tmp_path: Path) -> None:
    error = problem(tmp_path, "", PYJMS_JSM__LISTENER__X="1", PYJMS_JMS__CACHE__ENABLED="perhaps")
    lines = sorted(str(error).splitlines())
    assert lines[0].startswith(
        "environment variable PYJMS_JMS__CACHE__ENABLED: jms.cache.enabled: Input should be"
    )
    assert lines[1] == (
        "environment variable PYJMS_JSM__LISTENER__X: jsm: "
        "there is no such setting; did you mean jms?"
    )


def model_paths(model: type[BaseModel], prefix: str = "") -> set[str]:
    paths = set()
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            paths |= model_paths(field.annotation, f"{prefix}{name}.")
        else:
            paths.add(f"{prefix}{name}")
    return paths


def test_every_spring_name_leads_to_a_key_of_ours() -> None:
    assert model_paths(PyjmsSettings) >= OUR_NAMES


def document_paths(values: dict[str, Any], prefix: str = "") -> set[str]:
    paths = set()
    for name, value in values.items():
        if isinstance(value, dict) and value:
            paths |= document_paths(value, f"{prefix}{name}.")
        else:
            paths.add(f"{prefix}{name}")
    return paths


def test_the_reference_has_every_key_with_its_default() -> None:
    path = ROOT / "config/application.yaml"
    assert load_settings(path, environ={}).model_dump() == PyjmsSettings().model_dump()
    assert document_paths(parsed(path.read_text(), "x").values) == model_paths(PyjmsSettings)
    assert path.read_text().startswith(
        "# yaml-language-server: $schema=../docs/application.schema.json"
    )


def test_the_examples_of_the_reference(tmp_path: Path) -> None:
    text = (ROOT / "config/application.yaml").read_text(encoding="utf-8")
    defaults = ("brokers: {}", "listeners: {}", "pipelines: {}", "app: {}", "  file: null")
    lines = [line for line in text.splitlines() if not line.startswith(defaults)]
    examples = "\n".join(line.removeprefix("#|") for line in lines)
    settings = load(tmp_path, examples)
    orders = settings.listeners["orders"]
    assert set(type(orders).model_fields) == orders.model_fields_set | {"retry"}
    # retry takes the place of redelivery, so one of them is commented out
    without, count = re.subn(
        r"^    redelivery:.*\n(?:      .*\n)+", "", examples, flags=re.MULTILINE
    )
    assert count == 1
    with_retry = re.sub(r"^    # (retry:|  \w+:)", r"    \1", without, flags=re.MULTILINE)
    retry = load(tmp_path, with_retry)
    changes = retry.listeners["orders"].retry
    assert changes is not None
    assert (changes.maximum, changes.dead_letter) == (5, "orders.failed")
    pipeline = settings.pipelines["delays"]
    assert set(type(pipeline).model_fields) == pipeline.model_fields_set
    made = Pipeline(name="delays", **pipeline.values())
    assert (made.trigger, made.options) == (2.0, {"selector": "region = 'EU'"})
    assert settings.brokers["reporting"].user == "app"
    assert settings.logging.levels["root"] == "INFO"
    assert settings.app == {"region": "EU"}


def test_the_schema_for_editors() -> None:
    schema = settings_schema()
    written = (ROOT / "docs/application.schema.json").read_text(encoding="utf-8")
    assert json.loads(written) == schema, "run: pyjms config schema > docs/application.schema.json"
    assert schema["additionalProperties"] is False
    listener = schema["$defs"]["ListenerSettings"]
    assert listener["properties"]["auto_startup"]["description"].startswith(
        "Whether listeners start"
    )
    assert set(schema["properties"]) == set(PyjmsSettings.model_fields)


def test_logging_yaml_configures_real_loggers() -> None:
    config = yaml.safe_load((ROOT / "config/logging.yaml").read_text(encoding="utf-8"))
    logging.config.DictConfigurator(config)  # reads it without touching the loggers
    for name in config["loggers"]:
        assert find_spec(name) is not None, name
    handler = config["handlers"][config["root"]["handlers"][0]]
    assert handler["formatter"] in config["formatters"]


def test_a_round_trip_through_config_show(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        "jms: {listener: {receive_timeout: -1, recovery_interval: 250ms}, template: "
        "{time_to_live: 0, delivery_mode: persistent}}",
    )
    shown = yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False)
    assert load(tmp_path, shown).model_dump() == settings.model_dump()
