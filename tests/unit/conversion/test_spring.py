"""Spring's syntax in ActiveMQ's XML: each form of a property means the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pyjms_broker.conversion import Conversion, convert_activemq_xml
from pyjms_broker.settings import BrokerSettings, load_broker_settings
from pyjms_broker.settings.security import SimpleAuthenticationSettings

_NAMESPACES = " ".join(
    f'xmlns{prefix}="http://www.springframework.org/schema/{name}"'
    for prefix, name in (
        ("", "beans"),
        (":p", "p"),
        (":c", "c"),
        (":util", "util"),
        (":context", "context"),
    )
)
_BROKER_CLASS = "org.apache.activemq.broker.BrokerService"
_POLICY = "org.apache.activemq.broker.region.policy"
_SECURITY = "org.apache.activemq.security"

Convert = Callable[..., Conversion]


@pytest.fixture
def convert(tmp_path: Path) -> Convert:
    """Converts what is in `<beans>`, with an environment and the values of -D."""

    def converted(
        beans: str, environ: Mapping[str, str] | None = None, **defined: str
    ) -> Conversion:
        file = tmp_path / "activemq.xml"
        file.write_text(f"<beans {_NAMESPACES}>\n{beans}\n</beans>", encoding="utf-8")
        given = {name.replace("_", "."): value for name, value in defined.items()}
        return convert_activemq_xml(file, given, {} if environ is None else environ)

    return converted


def broker(inside: str = "", attributes: str = "") -> str:
    return (
        f'<broker xmlns="http://activemq.apache.org/schema/core" {attributes}>{inside}</broker>\n'
    )


def lost(conversion: Conversion) -> list[str]:
    return [str(each) for each in conversion.unsupported]


def settings(conversion: Conversion) -> BrokerSettings:
    """Return the settings of a conversion that lost nothing."""
    assert lost(conversion) == []
    return conversion.settings()


def users(conversion: Conversion) -> dict[str, tuple[str, str]]:
    """Return the passwords and groups of the first plug-in."""
    plugin = settings(conversion).plugins[0]
    assert isinstance(plugin, SimpleAuthenticationSettings)
    return {
        each.username: (each.password.get_secret_value(), ",".join(sorted(each.groups)))
        for each in plugin.users
    }


_NAME_FORMS = {
    "attribute": '<property name="brokerName" value="shop"/>',
    "element": '<property name="brokerName"><value>shop</value></property>',
    "typed": '<property name="brokerName"><value type="java.lang.String">shop</value></property>',
    "idref": '<property name="brokerName"><idref bean="shop"/></property>',
    "bean": '<property name="brokerName"><bean class="java.lang.String">'
    '<constructor-arg value="shop"/></bean></property>',
    "reference": '<property name="brokerName" ref="text"/>',
    "described": '<description>x</description><property name="brokerName">'
    "<description>y</description><value>shop</value></property>",
}


@pytest.mark.parametrize("form", _NAME_FORMS)
def test_a_property_may_be_written_in_every_form(convert: Convert, form: str) -> None:
    conversion = convert(
        f'<bean class="{_BROKER_CLASS}" init-method="start" destroy-method="stop" name="x">'
        f"{_NAME_FORMS[form]}</bean>"
        '<bean id="text" class="java.lang.String" c:_0="shop"/>'
    )
    found = conversion.settings()
    assert found.broker_name == "shop"
    assert all("java.lang.String is a Java object" in each for each in lost(conversion))


def test_attributes_of_the_namespace_p_are_properties(convert: Convert) -> None:
    conversion = convert(
        f'<bean class="{_BROKER_CLASS}" p:brokerName="shop" p:use-jmx="false" '
        'p:persistenceAdapter-ref="kaha"/>'
        '<bean id="kaha" class="org.apache.activemq.store.kahadb.KahaDBPersistenceAdapter" '
        'p:directory="k"/>'
    )
    found = settings(conversion)
    assert found.broker_name == "shop"
    assert found.persistence is not None
    assert found.persistence.directory == Path("k")


def test_a_property_of_a_property_and_lists_of_uris(convert: Convert) -> None:
    conversion = convert(
        f'<bean class="{_BROKER_CLASS}">'
        '<property name="systemUsage.memoryUsage.limit" value="#{1024 * 1024 * 64}"/>'
        '<property name="systemUsage.storeUsage.limit" value="1000000"/>'
        '<property name="transportConnectorURIs"><list>'
        "<value>tcp://127.0.0.1:0</value><value>stomp://127.0.0.1:0</value></list></property>"
        "</bean>"
    )
    found = settings(conversion)
    assert found.system_usage.memory_limit == 64 << 20
    assert found.system_usage.store_limit == 1_000_000
    assert [each.uri for each in found.connectors] == ["tcp://127.0.0.1:0", "stomp://127.0.0.1:0"]


def test_a_list_of_uris_may_be_one_text(convert: Convert) -> None:
    conversion = convert(
        broker(attributes='networkConnectorURIs="static:(tcp://a:1,tcp://b:2),static:(tcp://c:3)"')
    )
    assert [each.uri for each in settings(conversion).network_connectors] == [
        "static:(tcp://a:1,tcp://b:2)",
        "static:(tcp://c:3)",
    ]


def test_only_attributes_of_activemqs_elements_refer_with_a_hash_sign(convert: Convert) -> None:
    user = '<bean class="{}.AuthenticationUser">{}</bean>'
    arguments = "".join(f'<constructor-arg value="{each}"/>' for each in ("b", "#pw", "g"))
    conversion = convert(
        broker(
            "<plugins><simpleAuthenticationPlugin><users>"
            '<authenticationUser username="a" password="##pw" groups="#null"/>'
            "</users></simpleAuthenticationPlugin></plugins>"
        )
    )
    assert users(conversion) == {"a": ("#pw", "")}
    conversion = convert(
        f'<bean class="{_BROKER_CLASS}"><property name="plugins"><list>'
        f'<bean class="{_SECURITY}.SimpleAuthenticationPlugin"><property name="users"><list>'
        f"{user.format(_SECURITY, arguments)}</list></property></bean></list></property></bean>"
    )
    assert users(conversion) == {"b": ("#pw", "g")}


def test_users_may_be_in_maps(convert: Convert) -> None:
    conversion = convert(
        f'<bean class="{_BROKER_CLASS}"><property name="plugins"><array>'
        f'<bean class="{_SECURITY}.SimpleAuthenticationPlugin">'
        '<property name="userGroups"><map><entry key="a"><set>'
        '<bean class="org.apache.activemq.jaas.GroupPrincipal"><constructor-arg value="g"/></bean>'
        '<bean class="org.apache.activemq.jaas.GroupPrincipal" c:name="h"/>'
        "</set></entry></map></property>"
        '<property name="userPasswords"><map><entry key="a" value="007"/>'
        "<entry><key><value>b</value></key><value>no</value></entry></map></property>"
        "</bean></array></property></bean>"
    )
    assert users(conversion) == {"a": ("007", "g,h"), "b": ("no", "")}


@pytest.mark.parametrize("text", ["12345", "007", "1e3", "0o17", "no", "null", "~", "2026-11-29"])
def test_texts_that_yaml_reads_as_something_else_stay_texts(
    convert: Convert, tmp_path: Path, text: str
) -> None:
    conversion = convert(
        broker(
            "<plugins><simpleAuthenticationPlugin><users>"
            f'<authenticationUser username="{text}" password="{text}" groups="{text}"/>'
            "</users></simpleAuthenticationPlugin></plugins>"
            f'<destinations><queue physicalName="{text}"/></destinations>'
            f'<networkConnectors><networkConnector uri="static:(tcp://a:1)" name="{text}" '
            f'userName="{text}" password="{text}"/></networkConnectors>',
            f'brokerName="{text}" dataDirectory="{text}"',
        )
    )
    assert users(conversion) == {text: (text, text)}
    file = tmp_path / "broker.yaml"
    file.write_text(conversion.yaml(), encoding="utf-8")
    read = load_broker_settings(file, environ={})
    assert read.broker_name == text
    assert read.data_directory == Path(text)
    assert [each.physical_name for each in read.destinations] == [text]
    assert read.network_connectors[0].user_name == text
    assert read.plugins == conversion.settings().plugins


@pytest.mark.parametrize(("text", "expected"), [("yes", True), ("0", False), ("TRUE", True)])
def test_booleans_are_springs(convert: Convert, text: str, expected: bool) -> None:
    found = settings(convert(broker(attributes=f'schedulerSupport="{text}"')))
    assert found.scheduler_support is expected


_EXPRESSIONS = {
    "#{systemEnvironment['NODE']}": "n1",
    '#{systemEnvironment["NODE"]}': "n1",
    "#{systemEnvironment.NODE}": "n1",
    "#{systemEnvironment[NODE]}": "n1",
    "#{systemEnvironment.get('NODE')}": "n1",
    "#{T(java.lang.System).getenv('NODE')}": "n1",
    "#{environment.getProperty('NODE')}": "n1",
    "#{environment.getProperty('OTHER', 'd')}": "d",
    "#{systemProperties['shop.name']}": "s",
    "#{T(System).getProperty('shop.name')}": "s",
    "#{systemProperties['NODE'] ?: 'none'}": "none",
    "#{systemEnvironment['OTHER'] ?: 'it''s'}": "it's",
    "#{systemEnvironment['OTHER'] == null ? 'a' : 'b'}": "a",
    "#{systemEnvironment['NODE'] != null ? systemEnvironment['NODE'] + '-x' : 'b'}": "n1-x",
    "a-#{systemEnvironment['NODE']}-${shop.name}-#{1 + 2 * (4 - 1) - 9 / 2}": "a-n1-s-3",
    "#{'${shop.name}'}": "s",
}


@pytest.mark.parametrize("text", _EXPRESSIONS)
def test_expressions_that_need_no_java_object_are_evaluated(convert: Convert, text: str) -> None:
    attribute = text.replace('"', "&quot;")
    conversion = convert(
        f'<bean class="{_BROKER_CLASS}"><property name="brokerName" value="{attribute}"/></bean>',
        {"NODE": "n1"},
        shop_name="s",
    )
    # the characters that a broker's name may not have are replaced later
    assert conversion.document.values["broker_name"] == _EXPRESSIONS[text]


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("systemEnvironment['NODE']", "has no value: systemEnvironment['NODE']"),
        ("@names.next()", "is not evaluated"),
        ("T(java.lang.Runtime).getRuntime()", "is not evaluated"),
        ("'secret' matches 's'", "is not evaluated"),
        ("1 / 0", "is not evaluated"),
        ("systemEnvironment", "is not evaluated"),
        ("(" * 1000, "is not evaluated"),
        ("-" * 20_000 + "'a'", "is not evaluated"),
        ("9" * 5000, "is not evaluated"),
        ("1" + "0" * 400 + " / 1.5", "is not evaluated"),
        ("environment['again']", "refer to each other endlessly"),
        ("", "is not evaluated"),
        ("null", "has no value"),
    ],
)
def test_other_expressions_are_named_with_their_attribute(
    convert: Convert, expression: str, reason: str
) -> None:
    conversion = convert(
        broker(attributes=f'brokerName="a-#{{{expression}}}"'), again="#{environment['again']}"
    )
    [finding] = lost(conversion)
    assert "<broker brokerName>" in finding and reason in finding
    assert "secret" not in finding
    assert "broker_name" not in conversion.document.values


def test_beans_inherit_and_have_aliases(convert: Convert) -> None:
    conversion = convert(
        broker(
            '<destinationPolicy><policyMap><policyEntries><policyEntry queue=">" '
            'deadLetterStrategy="#other"/></policyEntries></policyMap></destinationPolicy>'
        )
        + '<alias name="dlq" alias="other"/>'
        '<bean id="base" abstract="true" class="'
        f'{_POLICY}.IndividualDeadLetterStrategy"><property name="queuePrefix" value="A."/>'
        '<property name="processExpired" value="false"/></bean>'
        '<bean id="dlq" parent="base"><property name="queuePrefix"><value>B.</value></property>'
        "</bean>"
    )
    assert settings(conversion) and conversion.document.values["policies"] == [
        {
            "destination": ">",
            "dead_letter_strategy": {
                "type": "individual",
                "queue_prefix": "B.",
                "process_expired": False,
            },
        }
    ]


def test_a_list_may_be_a_bean_of_its_own(convert: Convert) -> None:
    conversion = convert(
        broker(
            '<destinations><ref xmlns="http://www.springframework.org/schema/beans" bean="all"/></destinations>'
        )
        + '<util:list id="all"><bean class="org.apache.activemq.command.ActiveMQQueue">'
        '<constructor-arg index="0" value="1"/></bean>'
        '<bean class="org.apache.activemq.command.ActiveMQTopic"><constructor-arg><value>t</value>'
        "</constructor-arg></bean></util:list>"
    )
    assert settings(conversion)
    assert conversion.document.values["destinations"] == ["1", "topic://t"]


def test_profiles_and_values_in_the_file(convert: Convert) -> None:
    beans = (
        broker(attributes='brokerName="${name}"')
        + '<context:property-placeholder location="missing.properties" '
        'ignore-resource-not-found="true" properties-ref="p"/>'
        '<util:properties id="p"><prop key="name">n-${end}</prop></util:properties>'
        '<beans profile="test"><util:properties><prop key="end">t</prop></util:properties></beans>'
        '<beans profile="!test"><util:properties><prop key="end">p</prop></util:properties></beans>'
    )
    assert settings(convert(beans)).broker_name == "n-p"
    assert settings(convert(beans, spring_profiles_active="test")).broker_name == "n-t"
    assert settings(convert(beans, {"SPRING_PROFILES_ACTIVE": "x,test"})).broker_name == "n-t"


_PG = "jdbc:postgresql://db.example.com/shop"
_DBCP = "org.apache.commons.dbcp2.BasicDataSource"
_HIKARI = "com.zaxxer.hikari"
_LOGIN = "<property name='username' value='u'/><property name='password' value='1'/>"
_SOURCES = {
    "p attributes": f"<bean id='ds' class='{_DBCP}' p:url='{_PG}' p:username='u' p:password='1'/>",
    "c attributes": "<bean id='ds' class='org.springframework.jdbc.datasource."
    f"DriverManagerDataSource' c:_0='{_PG}' c:_1='u' c:_2='1'/>",
    "argument": f"<bean id='ds' class='{_HIKARI}.HikariDataSource'><constructor-arg>"
    f"<bean class='{_HIKARI}.HikariConfig'><property name='jdbcUrl' value='{_PG}'/>{_LOGIN}</bean>"
    "</constructor-arg></bean>",
    "argument reference": f"<bean id='ds' class='{_HIKARI}.HikariDataSource' c:_0-ref='h'/>"
    f"<bean id='h' class='{_HIKARI}.HikariConfig'><property name='jdbcUrl' value='{_PG}'/>{_LOGIN}"
    "</bean>",
    "map": f"<bean id='ds' class='{_HIKARI}.HikariDataSource'><property name="
    "'dataSourceClassName' value='org.postgresql.ds.PGSimpleDataSource'/>"
    "<property name='dataSourceProperties'><props><prop key='serverName'>db.example.com</prop>"
    "<prop key='databaseName'>shop</prop><prop key='user'>u</prop><prop key='password'>1</prop>"
    "</props></property></bean>",
    "proxy": "<bean id='ds' class='org.springframework.jdbc.datasource."
    "TransactionAwareDataSourceProxy'><property name='targetDataSource' ref='t'/></bean>"
    f"<bean id='t' class='{_DBCP}'><property name='url'><value>{_PG}</value></property>{_LOGIN}"
    "</bean>",
    "login in the URL": f"<bean id='ds' class='{_DBCP}' p:url='{_PG}?user=u&amp;password=1'/>",
    "upper case": f"<bean id='ds' class='{_DBCP}' p:URL='{_PG}' p:user='u' p:password='1'/>",
}
_STORE = broker(
    '<persistenceAdapter><jdbcPersistenceAdapter dataSource="#ds"/></persistenceAdapter>'
)


@pytest.mark.parametrize("form", _SOURCES)
def test_a_data_source_may_be_written_in_every_form(convert: Convert, form: str) -> None:
    conversion = convert(_STORE + _SOURCES[form])
    assert settings(conversion)
    assert conversion.document.values["persistence"] == {
        "type": "jdbc",
        "data_source": "postgresql+psycopg://u:1@db.example.com/shop",
    }


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("jdbc:mysql://db:3307/shop", "mysql+pymysql://u:1@db:3307/shop"),
        ("jdbc:mysql:replication://db/shop", "mysql+pymysql://u:1@db/shop"),
        ("jdbc:mariadb://db/shop", "mariadb+pymysql://u:1@db/shop"),
        ("jdbc:postgresql:shop", "postgresql+psycopg://u:1@localhost/shop"),
        ("jdbc:postgresql://db/", "postgresql+psycopg://u:1@db/"),
    ],
)
def test_urls_of_databases(convert: Convert, url: str, expected: str) -> None:
    conversion = convert(f"{_STORE}<bean id='ds' class='{_DBCP}' p:url='{url}'>{_LOGIN}</bean>")
    assert settings(conversion)
    assert conversion.document.values["persistence"]["data_source"] == expected


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("jdbc:mysql://a:1,b:2/shop", "only the first host"),
        ("jdbc:mysql://a/shop?useSSL=true", "options of the JDBC driver"),
        ("jdbc:oracle:thin:@a:1521:shop", "this database is not supported"),
        ("jdbc:sqlserver://a;databaseName=shop", "this database is not supported"),
    ],
)
def test_what_a_database_lacks_is_named(convert: Convert, url: str, reason: str) -> None:
    conversion = convert(f"{_STORE}<bean id='ds' class='{_DBCP}' p:url='{url}'>{_LOGIN}</bean>")
    [finding] = lost(conversion)
    assert reason in finding


def test_without_a_connector_the_broker_has_none(convert: Convert) -> None:
    conversion = convert(broker())
    assert conversion.document.values["connectors"] == []
    assert "only clients in its process" in "".join(map(str, conversion.findings))


_OLD = broker(
    '<plugins><simpleAuthenticationPlugin><users><authenticationUser username="a" '
    'password="${pw}"/></users></simpleAuthenticationPlugin></plugins>'
    '<persistenceAdapter><kahaDB directory="${activemq.base}/data"/></persistenceAdapter>'
)


@pytest.mark.parametrize(
    "location",
    [
        "file:${activemq.base}/conf/x.properties",
        "file:${activemq.conf}/x.properties",
        "file:conf/x.properties",
        "classpath:x.properties",
    ],
)
def test_files_of_the_old_base_are_read_where_they_are(tmp_path: Path, location: str) -> None:
    conf = tmp_path / "old" / "conf"
    conf.mkdir(parents=True)
    (conf / "x.properties").write_text("pw=1\n", encoding="utf-8")
    placeholder = f'<context:property-placeholder location="{location}"/>'
    (conf / "activemq.xml").write_text(
        f"<beans {_NAMESPACES}>{placeholder}{_OLD}</beans>", encoding="utf-8"
    )
    new = tmp_path / "new"
    conversion = convert_activemq_xml(conf / "activemq.xml", environ={}, new_base=new)
    assert users(conversion) == {"a": ("1", "")}
    assert conversion.document.values["persistence"]["directory"] == str(new / "data")


@pytest.mark.parametrize("resource", ["x" * 5000, "a\\u0000b", "\\ud83d\\ude00"])
def test_names_that_no_file_can_have_are_findings(
    convert: Convert, tmp_path: Path, resource: str
) -> None:
    (tmp_path / "names.properties").write_text(f"name={resource}\n", encoding="ascii")
    conversion = convert(
        '<context:property-placeholder location="names.properties"/>'
        + broker(
            '<sslContext><sslContext keyStore="${name}"/></sslContext><transportConnectors>'
            '<transportConnector uri="ssl://127.0.0.1:0"/></transportConnectors>'
        )
    )
    assert any("keyStore>" in each and "cannot be read" in each for each in lost(conversion))


@pytest.mark.parametrize(
    ("tag", "reason"),
    [
        ("transportConnectors><transportConnector uri='tcp://h:{}'/></transportConnectors", "port"),
        ("persistenceAdapter><kahaDB journalMaxFileLength='{}mb'/></persistenceAdapter", "size"),
    ],
    ids=["port", "size"],
)
def test_numbers_with_thousands_of_digits_are_findings(
    convert: Convert, tag: str, reason: str
) -> None:
    [finding] = lost(convert(broker(f"<{tag.format('9' * 5000)}>")))
    assert reason in finding
