"""Tool calls in any form that models emit: parsing and repair.

Models without native function calling, and those that forget it, write calls as text: in the tags of their
training, as JSON, as code. Without this package those texts would be taken for answers. Only ``parser``
decides what is a call, by rules that err towards prose: a quoted or described call must never run. ``repair``
fixes calls that nearly fit their tool, if the intention is certain.

What must stay true: parsing and repair are total, linear in the text, and never invent a value.
"""
