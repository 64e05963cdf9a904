import sys
from typing import Annotated

from dependency_injector import providers
from dependency_injector.wiring import Provide
from pydantic import BaseModel

from pyjms import ApplicationContainer, JmsApplication, JmsTemplate, jms_listener


class Invoice(BaseModel):
    id: int
    total: float


class Database:
    def save(self, invoice: Invoice) -> None:
        print(f"saved {invoice}", flush=True)


class Services(ApplicationContainer):
    database = providers.Singleton(Database)


@jms_listener("invoices", id="invoices")
def on_invoice(
    invoice: Invoice,
    database: Annotated[Database, Provide["database"]],
    template: Annotated[JmsTemplate, Provide["jms_template"]],
) -> None:
    database.save(invoice)
    template.convert_and_send("receipts", {"invoice": invoice.id})


app = JmsApplication(sys.modules[__name__], container=Services)
