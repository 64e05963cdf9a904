"""Messages over HTTP, like ActiveMQ's MessageServlet: `/api/message`. (activemq-edges W6, W7)"""
