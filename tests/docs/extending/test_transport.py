"""The recipe of a transport in docs/extending-client.md works as an installed third-party package."""

from __future__ import annotations

from pathlib import Path

from tests.kit.recipes import install, recipe_files, run_recipe


def test_the_transport_recipe_passes_the_contract_as_an_installed_package(tmp_path: Path) -> None:
    files = recipe_files("A transport")
    assert {"pyproject.toml", "pyjms_unix.py", "test_pyjms_unix.py"} == set(files)
    install(files, tmp_path)
    run_recipe(
        tmp_path,
        "-c",
        "from pyjms.transport import create_transport, known_schemes\n"
        "assert 'unix' in known_schemes()\n"
        "transport = create_transport('unix:///run/broker.sock?useInactivityMonitor=false')\n"
        "assert transport.remote_address == 'unix:///run/broker.sock'\n",
        fresh=True,
    )
    output = run_recipe(
        tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_pyjms_unix.py"
    )
    assert " passed" in output
    assert "skipped" not in output
