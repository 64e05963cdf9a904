# Source this (bash), then run the side-by-side benchmark: our broker, our driver, our Python.
_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
export PYJMS_BENCH_PYTHON="$_root/.venv/bin/python"
export PYJMS_BENCH_DRIVER="$_root/benchmarks/peers/driver.py"
_broker="env -u PYJMS_BROKER_CMD -u PYJMS_BROKER_NP_CMD $_root/.venv/bin/pyjms broker start"
export PYJMS_BROKER_CMD="$_broker --data {dir}/data --openwire 127.0.0.1:{openwire}"
export PYJMS_BROKER_NP_CMD="$_broker --ephemeral --openwire 127.0.0.1:{openwire}"
unset _root _broker
