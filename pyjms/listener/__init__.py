"""Listeners: endpoints, the containers that receive for them, and the calls of their handlers.

`container` has the containers and their collaborators, `handler` the way from a message to a
handler and back, `registry` the containers of an application.
"""
