"""Message bodies as typed rows: schemas of pydantic models and DDL, and the reader of JSON."""
