"""Convert ActiveMQ's XML configuration to broker.yaml.

    conversion = convert_activemq_xml(Path("conf/activemq.xml"))
    print(conversion.yaml())
    for finding in conversion.findings: print(finding)

Elements and attributes with a counterpart in broker.yaml are converted. Every other one becomes a
finding with file, line, element and attribute: nothing is dropped silently. What becomes of each is
in tables, made of the rules of `pyjms_broker.conversion.draft`.
"""

from __future__ import annotations

from pyjms_broker.conversion.broker import Conversion, convert_activemq_xml
from pyjms_broker.conversion.values import file_path
from pyjms_broker.conversion.xml_reader import Finding

__all__ = ["Conversion", "Finding", "convert_activemq_xml", "file_path"]
