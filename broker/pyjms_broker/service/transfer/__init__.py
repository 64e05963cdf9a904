"""Export of messages from a store to a file, and import back.

`message_file` defines the format. Export and import through a running broker use a client, in
`pyjms_broker.cli.remote`.
"""
