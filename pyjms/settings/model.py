"""PyjmsSettings: every key of application.yaml, with Spring Boot's names and defaults.

Values are read-only. An unknown key is an error. Durations are seconds once read; see
`pyjms.configuration.section` for the notation. (spring-jms 8)
"""

from __future__ import annotations

import os
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, cast

from pydantic import BaseModel, Field, PrivateAttr, SecretStr, create_model
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from pyjms.configuration.document import Document, Origin, Problems
from pyjms.configuration.logs import LoggingSettings
from pyjms.configuration.placeholders import Placeholders
from pyjms.configuration.section import DescribedModel, Duration, ReceiveTimeout, Section, Text
from pyjms.configuration.validation import validate
from pyjms.enums import AcknowledgeMode
from pyjms.errors import ConfigurationException, JMSException
from pyjms.settings.broker import ActiveMQSettings
from pyjms.settings.listeners import Acknowledge, Delivery, ListenerOverride, ListenerSettings
from pyjms.settings.spark import PipelineSettings, SparkSettings

M = TypeVar("M", bound=BaseModel)


class ObservabilitySettings(Section):
    """Traces and metrics of sends and handlers (`observability`)."""

    tracing: bool = False
    """Whether OpenTelemetry spans are recorded and the trace context is sent in messages (extra
    otel)."""
    metrics: bool = False
    """Whether OpenTelemetry's messaging metrics are recorded (extra otel)."""
    prometheus: bool = False
    """Whether Prometheus metrics are collected, for /metrics (extra prometheus)."""


class HealthSettings(Section):
    """The health checks of the application (`health`)."""

    port: int | None = Field(default=None, ge=0, le=65535)
    """The port of /health/live, /health/ready, /health/started and, with observability.prometheus,
    /metrics; 0: a free one; not set: none (needs the extra web)."""
    host: Text = "0.0.0.0"  # noqa: S104 - probes of an orchestrator come from outside
    """The address to listen on; 127.0.0.1: this machine only."""
    control_token: Annotated[SecretStr, Field(min_length=16)] | None = None
    """The token that requests to /listeners on that port must send (Authorization: Bearer TOKEN) to
    pause, resume and scale listeners; not set: such requests are refused."""
    probe_timeout: Duration | None = 5.0
    """Maximum time for a broker outside the application to accept a connection from /health/ready;
    the application is not ready while one does not. Not set: brokers are not probed."""
    stuck_after: Duration | None = 300.0
    """Time that a handler may run while messages wait, before its listener counts as stuck and the
    application as not ready; not set: no limit."""


class ApplicationLoggingSettings(LoggingSettings):
    """Logging of `pyjms run` (`logging`); all other keys are logger names with their levels."""

    tracebacks: bool = False
    """Whether the first failure of a message is logged with the handler's traceback."""


class CacheSettings(Section):
    """The resources that the template caches (`jms.cache`). Spring: spring.jms.cache."""

    enabled: bool = True
    """Whether the connection and sessions are cached (CachingConnectionFactory)."""
    consumers: bool = False
    """Whether consumers are also cached."""
    producers: bool = True
    """Whether producers are also cached."""
    session_cache_size: int = Field(default=1, ge=1)
    """Maximum number of cached sessions per acknowledge mode."""


class TemplateSessionSettings(Section):
    """The template's sessions (`jms.template.session`)."""

    acknowledge_mode: Acknowledge = AcknowledgeMode.AUTO
    """auto, client, dups_ok or a number."""
    transacted: bool = False
    """Whether each call outside a transaction runs in its own local transaction."""


class TemplateSettings(Section):
    """The JmsTemplate (`jms.template`). Spring: spring.jms.template."""

    default_destination: str | None = None
    """Destination of calls that name none."""
    delivery_mode: Delivery | None = None
    """persistent or non_persistent."""
    priority: int | None = Field(default=None, ge=0, le=9)
    """0 to 9."""
    time_to_live: Duration | None = None
    """Time after which messages expire; 0: never."""
    qos_enabled: bool | None = None
    """Whether delivery_mode, priority and time_to_live apply; not set: if one of them is set."""
    delivery_delay: Duration | None = None
    """Delivery delay of messages; requires a broker with a scheduler (scheduler_support, ActiveMQ:
    schedulerSupport); without it ActiveMQ delivers at once, and the bundled broker refuses."""
    receive_timeout: ReceiveTimeout = None
    """Maximum wait of a receive; 0: no limit, -1: do not wait."""
    shared_reply_queue: bool = True
    """Whether requests share a temporary queue for their replies, which then need a correlation id;
    false: a temporary queue per request, as in Spring."""
    raise_on_timeout: bool = False
    """Whether a request without a reply in time raises RequestTimeoutException; false: it returns
    None, as in Spring."""
    require_consumer: bool = False
    """Whether a request to a destination without a consumer raises NoConsumerException at once; the
    broker is asked before each request, by its consumer advisories."""
    interceptors: list[Text] = Field(default_factory=list)
    """Send interceptors of the templates and of replies, outermost first: module:name, or the name
    of an installed one."""
    session: TemplateSessionSettings = TemplateSessionSettings()

    def explicit_qos_enabled(self) -> bool:
        """Return whether delivery mode, priority and time to live apply."""
        if self.qos_enabled is not None:
            return self.qos_enabled
        return not (self.delivery_mode is self.priority is self.time_to_live is None)


class ConverterSettings(Section):
    """The message converter (`jms.converter`)."""

    dict_format: Literal["json", "map"] = "json"
    """Format of dict payloads: json (including dates, decimals, enumerations, nested values), or
    map, a MapMessage as in Spring."""
    type_id_mappings: dict[str, Text] = Field(default_factory=dict)
    """Mapping of type ids in other programs (property _type) to classes, for both directions:
    com.acme.Order: orders.Order."""
    trusted_packages: list[Text] = Field(default_factory=list)
    """Modules whose classes a message may name as its type, if the handler does not request a
    type."""


class JmsSettings(Section):
    """JMS (`jms`). Spring: spring.jms."""

    pub_sub_domain: bool = False
    """Whether destination names mean topics."""
    subscription_durable: bool = False
    """Whether the listeners' subscriptions are durable; their names then mean topics."""
    client_id: str | None = None
    """The client id of the listeners' connections."""
    converter: ConverterSettings = ConverterSettings()
    cache: CacheSettings = CacheSettings()
    listener: ListenerSettings = ListenerSettings()
    template: TemplateSettings = TemplateSettings()


class LifecycleSettings(Section):
    """The application's start and stop (`lifecycle`). Spring: spring.lifecycle."""

    startup_timeout: Duration = 10.0
    """Maximum wait for each broker during startup. If a broker is not available by then, a warning
    is logged, the application starts without it, and its listeners keep trying to connect. Without
    this limit, `failover:` would wait for ever."""
    timeout_per_shutdown_phase: Duration = 20.0
    """Time that running handlers get to finish when the application stops, for each phase of its
    container factories (usually one). After that they are abandoned, and their messages are
    redelivered. Spring's default of 30s equals the grace period of Kubernetes, which then kills the
    process."""


class PyjmsSettings(DescribedModel, BaseSettings):
    """All settings of an application; `PyjmsSettings()` has the defaults, without any file.

    `load_settings` reads them from files and environment.

    Example:
        settings = PyjmsSettings.model_validate({"activemq": {"user": "shop"}})
        assert settings.activemq.user == "shop"
    """

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(extra="forbid", frozen=True)

    jms: JmsSettings = JmsSettings()
    """JMS: template and listeners."""
    activemq: ActiveMQSettings = ActiveMQSettings()
    """The broker."""
    lifecycle: LifecycleSettings = LifecycleSettings()
    """The application's start and stop."""
    brokers: dict[str, ActiveMQSettings] = Field(default_factory=dict)
    """Additional brokers by name; a listener selects one by container_factory, a handler gets its
    template by Provide["jms_templates.NAME"]."""
    listeners: dict[str, ListenerOverride] = Field(default_factory=dict)
    """Settings of single listeners, by id."""
    observability: ObservabilitySettings = ObservabilitySettings()
    """Traces and metrics."""
    health: HealthSettings = HealthSettings()
    """Health checks."""
    spark: SparkSettings = SparkSettings()
    """Spark, for pipelines."""
    pipelines: dict[str, PipelineSettings] = Field(default_factory=dict)
    """Pipelines in SQL, and changes to decorated ones, by name."""
    logging: ApplicationLoggingSettings = ApplicationLoggingSettings()
    """Log levels by logger name (root: all loggers), and the log format of `pyjms run`."""
    app: dict[str, Any] = Field(default_factory=dict)
    """The application's own settings."""

    _placeholders: Placeholders | None = PrivateAttr(default=None)
    _document: Document = PrivateAttr(default_factory=Document)
    _is_incomplete: bool = PrivateAttr(default=False)
    _has_retry_delays: bool = PrivateAttr(default=True)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Use the arguments only: load_settings reads files and environment."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)

    def resolve_placeholders(self, text: str) -> str:
        """Return `text` with `${NAME}` and `${NAME:default}` replaced.

        Names are environment variables, keys (`jms.client_id`, `app.region`) and keys
        below `app` (`region`), in this order.

        Raises:
            ConfigurationException: a name is unknown.

        """
        placeholders = self._placeholders
        if placeholders is None:
            values = self.model_dump(mode="json", by_alias=True, exclude={"brokers": True})
            values["activemq"].pop("password")
            placeholders = Placeholders(values, os.environ)
        return placeholders.resolve(text)

    def bind_app(self, model: type[M], *keys: str) -> M:
        """Return the application's own settings, the section `app`, as an object of a class.

        Values that environment variables set are texts, which the class converts. Does not block.
        Spring: @ConfigurationProperties.

        Args:
            model: a pydantic model; `extra="forbid"` refuses misspelt keys.
            keys: the path of a section below `app`; none: `app` itself.

        Raises:
            ConfigurationException: keys are missing or have wrong values; a line for each, with the
                file and line, or the variable.

        Example:
            class ShopSettings(BaseModel, extra="forbid"):
                limit: float = 1000.0


            settings = load_settings(environ={"PYJMS_APP__SHOP__LIMIT": "50"})
            assert settings.bind_app(ShopSettings, "shop").limit == 50.0
        """
        path = ("app", *keys)
        sections: type[BaseModel] = model
        for key in reversed(path):  # errors then name the whole path
            field = Field(default_factory=dict, validate_default=True)
            fields: dict[str, Any] = {key: (sections, field)}
            sections = create_model(key, **fields)
        values = {"app": self.app}
        found: Any = validate(sections, Document(values, self._document.origins))
        for key in path:
            found = getattr(found, key)
        return cast("M", found)

    def use_document(
        self, document: Document, placeholders: Placeholders, problems: Problems
    ) -> None:
        """Keep the sources of the settings, to resolve `${...}` in texts and to name lines in
        errors.
        """
        self._document = Document(origins=document.origins)  # values may be passwords
        self._placeholders = placeholders
        self._is_incomplete = bool(problems)

    @property
    def is_incomplete(self) -> bool:
        """Whether values are missing because they are not valid, or their file is not."""
        return self._is_incomplete

    def origin(self, path: tuple[str, ...]) -> Origin | None:
        """Return file and line of the value at `path`, or of the section that contains it."""
        return self._document.origin(path)

    def source(self, path: tuple[str, ...]) -> Origin | None:
        """Return the source of the value at `path` itself; None: it is the default."""
        return self._document.origins.get(path)

    def problem(self, path: tuple[str, ...], error: Exception) -> ConfigurationException:
        """Return the error of the value at `path`, with file and line if it was read from one."""
        reason, hint = str(error), ""
        if isinstance(error, JMSException):
            reason, hint = error.reason, error.hint
        return self._document.problem(path, reason, hint)

    def without_redelivery_delays(self) -> Self:
        """Return the same settings with the redelivery delays of the broker's URL, for tests."""
        activemq = self.activemq.without_redelivery_delays()
        listeners = {
            name: own
            if own.redelivery is None
            else own.model_copy(update={"redelivery": own.redelivery.without_delays()})
            for name, own in self.listeners.items()
        }
        changed = self.model_copy(update={"activemq": activemq, "listeners": listeners})
        changed._has_retry_delays = False  # noqa: SLF001 - an object of this class
        return changed

    @property
    def has_retry_delays(self) -> bool:
        """Whether the delays of the listeners' retry policies apply; not in tests."""
        return self._has_retry_delays

    def with_broker_url(self, url: str) -> Self:
        """Return the same settings for another broker."""
        activemq = self.activemq.model_copy(
            update={"broker_url": url, "tls": None, "failover": None}
        )
        return self.model_copy(update={"activemq": activemq})
