"""Tool calls in any form that models emit: parsing and repair.

Models without native function calling, and those that have it and forget, write their calls as text: in the
tags of their training, as JSON, as code. Without this they would appear to give those texts as answers. What
counts as a call is decided by ``parser`` alone, by rules that err towards prose: a quoted or described call
must never run. What nearly fits its tool is brought to fit by ``repair``, where it is certain what was meant.

What must stay true: parsing and repair are total, linear in the text, and never invent a value.
"""
