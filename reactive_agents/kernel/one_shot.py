"""The smallest kernel: one call to the model, whose text is the answer."""

from __future__ import annotations

from attrs import evolve
from returns.result import Failure, Result

from reactive_agents.core.errors import KernelErrors
from reactive_agents.effects import attempt, effect
from reactive_agents.kernel.asking import ask
from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.turn import absorb_response, spoken


@effect
async def one_shot_kernel(state: KernelState, context: KernelContext) -> Result[KernelState, KernelErrors]:
    """Ask once, without tools, and propose the text as the answer. Fails with ``ModelCallFailed``."""
    asked = await ask(state, context, with_tools=False)
    if isinstance(asked, Failure):
        return asked
    state, _, response, extent = asked.unwrap()
    following = absorb_response(state, evolve(response, tool_calls=()), context.clock.now(), extent)
    thought = spoken(response)
    if thought:
        await attempt(context.hooks.on_thought(following.value_or(state), thought))
    return following
