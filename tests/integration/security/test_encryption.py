"""Encrypted values of files, ours and those of ActiveMQ's `activemq encrypt`. (activemq-edges SE3)"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pyjms.configuration.encryption import decrypt, encrypt
from pyjms.errors import ConfigurationException
from pyjms_broker.security.jaas import parse_login_config
from pyjms_broker.settings import load_broker_settings
from pyjms_broker.settings.security import (
    PropertiesAuthenticationSettings,
    SimpleAuthenticationSettings,
)
from tests.kit.brokers.security import StartSecured
from tests.kit.processes.forked_python import run_python
from tests.kit.servers.java_programs import JAR_FOLDER, QUIET

ENVIRON = {"ACTIVEMQ_ENCRYPTION_PASSWORD": "activemq"}
DES = "ENC(DNEoBPQ++L1k2YGuX/g/hssdqtnrMjX/)"
"""mypassword, by `activemq encrypt` of 5.17.2."""
AES = "ENC(9/OdvvhJgiEm760lMYmTLrO6/2kX33LYfuYbWHSQmynTd2by/CW9udRodE8SNyv3)"
"""The same with `--algorithm PBEWithHmacSHA256AndAES_256`."""


@pytest.mark.fact("activemq-edges SE3")
@pytest.mark.parametrize("value", [DES, AES], ids=["des", "aes"])
def test_values_of_activemq_are_decrypted(value: str) -> None:
    assert decrypt(value, ENVIRON) == "mypassword"
    with pytest.raises(ConfigurationException, match="the password is wrong"):
        decrypt(value, {"PYJMS_ENCRYPTION_PASSWORD": "other"})


@pytest.mark.parametrize("text", ["x", "geheim: Ü\n", "long " * 1000], ids=["x", "odd", "long"])
def test_own_values_are_decrypted(text: str) -> None:
    value = encrypt(text, "secret")
    assert value != encrypt(text, "secret")
    assert decrypt(value, {"PYJMS_ENCRYPTION_PASSWORD": "secret", **ENVIRON}) == text
    changed = value[:-3] + ("A" if value[-3] != "A" else "B") + value[-2:]
    for wrong in (value[:40] + ")", "ENC(v1:)", changed):
        with pytest.raises(ConfigurationException):
            decrypt(wrong, {"PYJMS_ENCRYPTION_PASSWORD": "secret"})


def test_without_a_password_the_error_names_the_line_and_the_variable(tmp_path: Path) -> None:
    file = tmp_path / "broker.yaml"
    file.write_text(
        f"plugins:\n  simple_authentication:\n    users: [{{username: a, password: '{DES}'}}]\n"
    )
    with pytest.raises(ConfigurationException) as caught:
        load_broker_settings(file, environ={})
    assert f"{file}:3" in str(caught.value)
    assert "PYJMS_ENCRYPTION_PASSWORD" in str(caught.value)
    (plugin,) = load_broker_settings(file, environ=ENVIRON).plugins
    assert isinstance(plugin, SimpleAuthenticationSettings)
    assert plugin.users[0].password.get_secret_value() == "mypassword"
    assert "mypassword" not in repr(plugin)


async def test_passwords_of_users_properties_are_decrypted(
    secured: StartSecured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users, groups = tmp_path / "users.properties", tmp_path / "groups.properties"
    users.write_text(f"system={AES}\n")
    groups.write_text("admins=system\n")
    monkeypatch.setenv(*next(iter(ENVIRON.items())))
    async with secured(
        PropertiesAuthenticationSettings(users_file=users, groups_file=groups)
    ) as broker:
        client = await broker.client("system", "mypassword")
        assert broker.principal(client) == "system:admins"


def test_options_of_login_modules_are_decrypted() -> None:
    text = f'a {{ Module required connectionPassword="{DES}"; }};'
    (entry,) = parse_login_config(text, "login.config", ENVIRON)["a"]
    assert entry.options == {"connectionPassword": "mypassword"}
    with pytest.raises(ConfigurationException, match=r"login.config:1: A value is encrypted"):
        parse_login_config(text, "login.config", {})


def run(command: str, text: str, *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if "ENCRYPTION" not in name}
    arguments = ("-m", "pyjms_broker", command, *options)
    return run_python(*arguments, stdin=f"{text}\n", env={**clean, **environ})


def test_the_commands_encrypt_and_decrypt() -> None:
    password = {"PYJMS_ENCRYPTION_PASSWORD": "secret"}
    value = run("encrypt", "geheim", **password).stdout.strip()
    assert value.startswith("ENC(v1:")
    assert run("decrypt", value, **password).stdout == "geheim\n"
    assert run("decrypt", DES, **ENVIRON).stdout == "mypassword\n"
    wrong = run("decrypt", value, PYJMS_ENCRYPTION_PASSWORD="other")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "cannot be decrypted" in wrong.stderr
    without = run("encrypt", "geheim")
    assert without.returncode == 2
    assert "PYJMS_ENCRYPTION_PASSWORD" in without.stderr
    assert "geheim" not in without.stderr


AES_NAME = "PBEWithHmacSHA256AndAES_256"
DES_NAME = "PBEWithMD5AndDES"


@pytest.mark.fact("activemq-edges CL7")
@pytest.mark.parametrize(
    ("options", "name"), [((), DES_NAME), (("--algorithm", AES_NAME), AES_NAME)]
)
def test_activemqs_options_print_its_lines(options: tuple[str, ...], name: str) -> None:
    given = ("--password", "p", "--input", "geheim")
    first, second = (run("encrypt", "", *given, *options).stdout for _ in range(2))
    assert first != second, "the salt is random"
    value = first.removeprefix("Encrypted text: ").strip()
    assert len(base64.b64decode(value)) == (16 if name == DES_NAME else 48)
    for form in (value, f"ENC({value})"):
        found = run("decrypt", "", "--input", form, PYJMS_ENCRYPTION_PASSWORD="p")
        assert found.stdout == "Decrypted text: geheim\n"
    other = AES_NAME if name == DES_NAME else DES_NAME
    wrong = run("decrypt", "", "--input", value, "--password", "p", "--algorithm", other)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert f"the algorithm is not one of {other};" in wrong.stderr


def test_a_weak_algorithm_is_noted() -> None:
    given = ("--password", "p", "--input", "geheim")
    assert "PBEWithMD5AndDES is weak" in run("encrypt", "", *given).stderr
    assert run("encrypt", "", *given, "--algorithm", AES_NAME).stderr == ""


def test_the_option_comes_before_the_environment() -> None:
    value = run("encrypt", "geheim", "--password", "p", ACTIVEMQ_ENCRYPTION_PASSWORD="other").stdout
    assert run("decrypt", value.strip(), ACTIVEMQ_ENCRYPTION_PASSWORD="p").stdout == "geheim\n"
    assert run("decrypt", value.strip(), ACTIVEMQ_ENCRYPTION_PASSWORD="other").returncode == 2


@pytest.mark.activemq
@pytest.mark.fact("activemq-edges CL7")
@pytest.mark.parametrize("algorithm", [DES_NAME, AES_NAME])
def test_activemqs_own_command_decrypts_what_ours_encrypts(algorithm: str) -> None:
    names = ("activemq-console", "activemq-client", "activemq-broker", "slf4j-api", "jasypt")
    jars = [JAR_FOLDER / f"{name}.jar" for name in names]
    missing = [jar.stem for jar in jars if not jar.exists()]
    if shutil.which("java") is None or missing:
        pytest.skip("no java or console: apt-get install activemq libjasypt-java")
    options = ("--password", "p", "--algorithm", algorithm, "--input")
    value = run("encrypt", "", *options, "geheim").stdout.removeprefix("Encrypted text: ").strip()
    real = subprocess.run(
        [
            *("java", *QUIET, "-cp", ":".join(map(str, jars))),
            *("org.apache.activemq.console.command.ShellCommand", "decrypt", *options, value),
        ],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert real.stdout.strip() == "Decrypted text: geheim", real.stderr
