"""Which Java Spark gets, and the errors where there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pyjms.errors import ConfigurationException
from pyjms.runtime.distribution import install_command
from pyjms.spark.session import JavaHome, find_java, session_conf, wrapper_home

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="shell scripts stand for Java")


def make_java(folder: Path, version: str | None, printed: str = "") -> Path:
    (folder / "bin").mkdir(parents=True)
    if version is not None:
        (folder / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
    java = folder / "bin" / "java"
    java.write_text(
        f"#!/bin/sh\n[ \"$1\" = -version ] && {{ echo '{printed}' >&2; exit 0; }}\n"
        'for a in "$@"; do echo "$a"; done\n'
    )
    java.chmod(0o755)
    return folder


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", "21.0.8")
    other = make_java(tmp_path / "other", "17.0.1")
    found = find_java("auto", {"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert found == JavaHome(home, 21, "JAVA_HOME")


def test_path_is_asked_when_java_home_is_not_set(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", "17.0.1")
    assert find_java("system", {"PATH": str(home / "bin")}) == JavaHome(home.resolve(), 17, "PATH")


def test_a_setting_goes_before_all(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", "17.0.1")
    wanted = make_java(tmp_path / "wanted", "25")
    assert find_java(str(wanted), {"JAVA_HOME": str(home)}) == JavaHome(wanted, 25, "spark.java")


def test_java_itself_is_asked_where_no_file_says_the_version(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", None, printed='openjdk version "21.0.3" 2024')
    assert find_java(str(home), {}).version == 21


def test_java_8_is_too_old(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", "1.8.0_402")
    with pytest.raises(ConfigurationException, match=r"JAVA_HOME is .* Java 8; .* 17 or newer"):
        find_java("auto", {"JAVA_HOME": str(home)})


def test_an_old_java_on_path_is_passed_over(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", "11.0.2")
    with pytest.raises(ConfigurationException, match="no suitable `java` is on PATH"):
        find_java("system", {"PATH": str(home / "bin")})


def test_a_folder_without_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationException, match=r"spark\.java is .*nowhere.* no bin/java"):
        find_java(str(tmp_path / "nowhere"), {})


def test_no_java_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationException) as caught:
        find_java("system", {"PATH": str(tmp_path)})
    assert install_command("spark") in caught.value.hint


def test_the_wrapper_drops_one_argument_and_keeps_the_others(tmp_path: Path) -> None:
    home = make_java(tmp_path / "it's java", "25")
    wrapper = wrapper_home(home, tmp_path / "cache")
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", "*", "$HOME"]
    done = subprocess.run(
        [wrapper / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["-cp", "a b", "Main", "*", "$HOME"]


def test_the_wrapper_is_written_once(tmp_path: Path) -> None:
    home = make_java(tmp_path / "java", "25")
    script = wrapper_home(home, tmp_path / "cache") / "bin" / "java"
    before = script.stat().st_mtime_ns, script.stat().st_ino
    assert wrapper_home(home, tmp_path / "cache") == script.parent.parent
    assert (script.stat().st_mtime_ns, script.stat().st_ino) == before


def test_the_users_settings_go_over_ours() -> None:
    conf = session_conf("local[2]", {"spark.speculation": "true"})
    assert conf["spark.speculation"] == "true"
    assert conf["spark.master"] == "local[2]"
