"""Security plug-ins: authentication and authorization. (activemq-edges 6)"""
