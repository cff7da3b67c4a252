// openai for Node
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.WINNOW_URL + "/v1",
                            apiKey: process.env.WINNOW_KEY });
for await (const model of client.models.list()) console.log(model.id);
const messages = [{ role: "user", content: "Weather in Oslo?" }];
const tools = [{ type: "function", function: { name: "weather", parameters: {
  type: "object", properties: { city: { type: "string" } } } } }];
const stream = client.chat.completions.stream({ model: "scripted", messages, tools });
const { message, finish_reason } = (await stream.finalChatCompletion()).choices[0];
const [call] = message.tool_calls;
console.log(message.content, finish_reason, call.function.name, JSON.parse(call.function.arguments));

messages.push(message, { role: "tool", tool_call_id: call.id,
                         content: "4 degrees and rain" });
const last = await client.chat.completions.create({ model: "scripted", messages, tools });
console.log(last.choices[0].message.content);

const events = await client.responses.create({ model: "scripted", input: "Say hello.",
                                               stream: true });
let text = "";
for await (const event of events) {
  if (event.type === "response.output_text.delta") text += event.delta;
  if (event.type === "response.completed") console.log(text, event.response.status);
}
const error = await client.completions.create({ model: "another", prompt: "x" })
  .catch((caught) => caught);
console.log(error instanceof OpenAI.NotFoundError, error.code);
