# langchain-openai
import os
from typing import Literal

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return "4 degrees and rain"


class Judgement(BaseModel):
    verdict: Literal["guilty", "innocent"]


chat = ChatOpenAI(model="scripted", base_url=os.environ["WINNOW_URL"] + "/v1",
                  api_key=os.environ["WINNOW_KEY"], temperature=0)
chunks = list(chat.stream("Say hello.", stream_usage=True))
print("".join(chunk.content for chunk in chunks))
print(sum(chunk.usage_metadata["total_tokens"] for chunk in chunks
          if chunk.usage_metadata))
messages = [HumanMessage("Weather in Oslo?")]
messages.append(chat.bind_tools([weather]).invoke(messages))
for call in messages[-1].tool_calls:
    print(call["name"], call["args"])
    messages.append(ToolMessage(weather.invoke(call["args"]),
                                tool_call_id=call["id"]))
print(chat.bind_tools([weather]).invoke(messages).content)
judge = chat.with_structured_output(Judgement, method="json_schema")
print(judge.invoke("Judge.").verdict)
