// Talks to a server with the client of user interfaces: a question, an approval, a tool of the interface.
import { HttpAgent } from "@ag-ui/client";

const agent = new HttpAgent({ url: process.argv[2], threadId: "t1" });
const seen = [];
const subscriber = { onEvent: ({ event }) => { seen.push(event.type); } };
const tools = [{ name: "show_map", description: "Shows a map.", parameters: { type: "object", properties: { city: { type: "string" } } } }];

agent.addMessage({ id: "u1", role: "user", content: "Pay Ann, and show Rome." });
await agent.runAgent({ tools }, subscriber);
const [interrupt] = agent.pendingInterrupts;
await agent.runAgent({ tools, resume: [{ interruptId: interrupt.id, status: "resolved", payload: { approved: true } }] }, subscriber);
const call = agent.messages.flatMap((each) => each.toolCalls ?? []).find((each) => each.function.name === "show_map");
agent.addMessage({ id: "m1", role: "tool", toolCallId: call.id, content: "shown" });
await agent.runAgent({ tools }, subscriber);
console.log(JSON.stringify({ interrupt, messages: agent.messages, seen }));
