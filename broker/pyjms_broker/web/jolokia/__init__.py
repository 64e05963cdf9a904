"""Jolokia's protocol on the management model: `/api/jolokia`. (activemq-edges JX3)"""
