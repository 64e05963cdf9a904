import reports


async def test_second_attempt(jms_app, jms_clock):
    reports.printer.broken = True
    await jms_app.start(reports, redelivery_delay=None)
    await jms_app.template.convert_and_send("reports", {"pages": 3})
    await jms_app.recorder.until(lambda calls: len(calls) == 1)
    reports.printer.broken = False
    await jms_clock.advance(1.0)
    await jms_app.recorder.until(lambda calls: len(calls) == 2)
    await jms_app.drained("reports")
    assert await jms_app.dead_letters() == []


async def test_dead_letter(jms_app, jms_clock):
    reports.printer.broken = True
    await jms_app.start(reports, redelivery_delay=None)
    await jms_app.template.convert_and_send("reports", {"pages": 3})
    for attempt in range(1, 8):
        await jms_app.recorder.until(lambda calls, attempt=attempt: len(calls) == attempt)
        await jms_clock.advance(1.0)
    await jms_app.drained("reports")
    (dead,) = await jms_app.dead_letters()
    assert dead.properties["pyjms_failure_type"] == "ConnectionError"
