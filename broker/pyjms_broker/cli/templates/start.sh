#!/bin/sh
# Runs broker @NAME@ until SIGTERM or SIGINT.
cd @SHELL_PATH@ && exec @SHELL_PYTHON@ -m pyjms_broker start --config broker.yaml "$@"
