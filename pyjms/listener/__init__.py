"""Listeners: endpoints, the containers that receive for them, and the calls of their handlers.

`container` has the containers and their collaborators, `handler` argument resolution, handler calls
and replies, `registry` the containers of an application.
"""
