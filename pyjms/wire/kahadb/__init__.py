"""KahaDB's journal format: `codec` for records, `journal` and `reader` for segments."""
