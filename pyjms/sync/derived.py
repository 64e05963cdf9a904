"""What blocking classes derive from coroutine classes, for type checkers: see `derived.pyi`.

At run time `pyjms.sync.facade.derive` makes these classes, in the modules that use them.
"""
