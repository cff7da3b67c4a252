# openai for Python
import os
import openai

client = openai.OpenAI(base_url=os.environ["WINNOW_URL"] + "/v1",
                       api_key=os.environ["WINNOW_KEY"])
hello = [{"role": "user", "content": "Say hello."}]
answer = client.chat.completions.create(model="scripted", messages=hello)
print(answer.choices[0].message.content, answer.usage.total_tokens)

stream = client.chat.completions.create(model="scripted", messages=hello, stream=True)
for chunk in stream:
    print(chunk.choices[0].delta.content or "", end="")
print("", chunk.choices[0].finish_reason)

print(client.responses.create(model="scripted", input="Say hello.").output_text)
try:
    client.chat.completions.create(model="scripted", messages=hello * 5000)
except openai.BadRequestError as error:
    print(error.code)
