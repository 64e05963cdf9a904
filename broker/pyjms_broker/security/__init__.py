"""Security plug-ins: who may connect, and what users may do. (activemq-edges 6)"""
