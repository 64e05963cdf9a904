from pydantic import BaseModel

from pyjms import jms_listener


class PriceRequest(BaseModel):
    id: int


class Price(BaseModel):
    id: int
    price: float


@jms_listener("prices", id="prices")
def on_request(request: PriceRequest) -> Price:
    return Price(id=request.id, price=request.id * 1.25)
