"""The kernel without reasoning: ask, run the calls, and take the first reply without calls as the answer.

It steps just like the ReAct kernel; what it lacks are the instructions for reasoning and the ``final-answer``
tool, which belong to the run's options.
"""

from __future__ import annotations

from reactive_agents.kernel.react import react_kernel

direct_kernel = react_kernel
