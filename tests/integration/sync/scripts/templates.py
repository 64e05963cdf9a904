"""A template that sends, browses, receives, and asks for a reply."""

import sys
import threading

import pyjms

factory = pyjms.CachingConnectionFactory(pyjms.ConnectionFactory(sys.argv[1]))
template = pyjms.JmsTemplate(factory, receive_timeout=10)
template.convert_and_send("scripts.templates", {"n": 1})
template.send("scripts.templates", lambda session: session.create_text_message("made"))
count = template.browse("scripts.templates", lambda _session, browser: len(list(browser)))
assert count == 2, count
assert template.receive_and_convert("scripts.templates") == {"n": 1}
assert template.receive("scripts.templates").text == "made"


def answer() -> None:
    request = template.receive("scripts.requests")
    template.convert_and_send(request.reply_to, request.text.upper())


thread = threading.Thread(target=answer)
thread.start()
reply = template.send_and_receive(
    "scripts.requests", lambda session: session.create_text_message("hello")
)
assert reply.text == "HELLO", reply
thread.join()
factory.destroy()
print("done")
