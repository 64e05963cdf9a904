"""Marks on handlers: what they listen to, what their parameters take, where their result goes."""
