"""Pools of connections and of their sessions. (spring-jms 9 and 10)

    PooledConnectionFactory --lends--> PooledConnection --lends--> PooledSession
              |                               |                          |
      PhysicalConnection <--refers to---------+                          |
              |                                                          |
          SessionPool ------------------takes and returns ---------------+

The objects on the right are handles: each is one use, from its creation to its `close`. The objects
on the left are pooled. A physical connection is shared by several handles, a physical session has
at most one handle at a time.
"""
