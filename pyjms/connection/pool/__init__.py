"""Pools of connections and of their sessions. (spring-jms 9 and 10)

    PooledConnectionFactory --lends--> PooledConnection --lends--> PooledSession
              |                               |                          |
      PhysicalConnection <--refers to---------+                          |
              |                                                          |
          SessionPool ------------------takes and puts back--------------+

The objects on the right are handles: each is one use, from its creation to its `close`. Those on
the left are what is pooled. A physical connection is shared by several handles, a physical session
is never used by two.
"""
