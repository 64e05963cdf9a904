import shop
from dependency_injector import providers


class FakeDatabase:
    def __init__(self):
        self.saved = []

    def save(self, invoice):
        self.saved.append(invoice)


async def test_invoice_is_saved(jms_app):
    fake = FakeDatabase()
    services = shop.Services()
    services.database.override(providers.Object(fake))
    await jms_app.start(shop, container=services)
    await jms_app.template.convert_and_send("invoices", shop.Invoice(id=1, total=2.5))
    await jms_app.drained("invoices")
    assert fake.saved == [shop.Invoice(id=1, total=2.5)]
    assert await jms_app.template.receive_and_convert("receipts") == {"invoice": 1}


def test_without_coroutines(jms_blocking_app):
    fake = FakeDatabase()
    services = shop.Services()
    services.database.override(providers.Object(fake))
    jms_blocking_app.start(shop, container=services)
    jms_blocking_app.template.convert_and_send("invoices", shop.Invoice(id=1, total=2.5))
    jms_blocking_app.drained("invoices")
    assert fake.saved == [shop.Invoice(id=1, total=2.5)]
