# litellm
import os
import litellm

litellm.suppress_debug_info = True

url, key = os.environ["WINNOW_URL"], os.environ["WINNOW_KEY"]
hello = [{"role": "user", "content": "Say hello."}]
by_openai = {"model": "openai/scripted", "api_base": url + "/v1", "api_key": key}
answer = litellm.completion(**by_openai, messages=hello)
print(answer.choices[0].message.content, answer.usage.total_tokens)
print("".join(chunk.choices[0].delta.content or "" for chunk in
              litellm.completion(**by_openai, messages=hello, stream=True)))
by_anthropic = {"model": "anthropic/scripted", "api_base": url, "api_key": key}
print(litellm.completion(**by_anthropic, messages=hello,
                         max_tokens=20).choices[0].message.content)
for wrong, body in [("length", {**by_openai, "messages": hello * 5000}),
                    ("model", {**by_openai, "model": "openai/another",
                               "messages": hello})]:
    try:
        litellm.completion(**body, num_retries=0)
    except Exception as error:
        print(wrong, type(error).__name__)
