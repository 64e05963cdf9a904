from pyjms import jms_listener


class Printer:
    broken = True


printer = Printer()


@jms_listener("reports", id="reports")
def on_report(report: dict) -> None:
    if printer.broken:
        raise ConnectionError("no printer")
