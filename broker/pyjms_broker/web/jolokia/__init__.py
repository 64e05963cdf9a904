"""Jolokia's protocol over the management model: `/api/jolokia`. (activemq-edges JX3)"""
