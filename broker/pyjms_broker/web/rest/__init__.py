"""Messages by HTTP, as ActiveMQ's MessageServlet: `/api/message`. (activemq-edges W6, W7)"""
