# anthropic for Python
import os
import anthropic

client = anthropic.Anthropic(base_url=os.environ["WINNOW_URL"],
                             api_key=os.environ["WINNOW_KEY"])
ask = {"model": "scripted", "max_tokens": 20, "tools": [{
    "name": "weather", "input_schema": {
        "type": "object", "properties": {"city": {"type": "string"}}}}],
    "messages": [{"role": "user", "content": "Weather in Oslo?"}]}
with client.messages.stream(**ask) as stream:
    print("".join(stream.text_stream))
    answer = stream.get_final_message()
use = answer.content[1]
print(answer.stop_reason, use.name, use.input)
ask["messages"] += [
    {"role": "assistant", "content": answer.content},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id,
                                  "content": "4 degrees and rain"}]}]
print(client.messages.create(**ask).content[0].text)
print(client.messages.count_tokens(model="scripted", messages=[
    {"role": "user", "content": "Say hello."}]).input_tokens)
