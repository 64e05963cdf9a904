"""Plug-ins in broker.yaml: built-in ones (`built_in`), and parts that other settings share."""
