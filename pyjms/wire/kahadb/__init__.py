"""The format of KahaDB's journal: `codec` for records, `journal` and `reader` for segments."""
