"""llama.cpp behind two questions, for bench/compare_llama_cpp.

    .tools/llama-cpp/bin/python bench/llama_cpp_worker.py FILE.gguf THREADS

Reads a JSON line a question from standard input and answers with one:
{"logprobs": {"prompt", "tokens", "watched"}}: of each of `tokens` in turn after
the prompt, the log-probabilities of the watched ids, and the best two.
{"measure": {"prompt", "generate"}}: seconds of the prompt until its first
token, and of so many greedy tokens after it.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time

import llama_cpp
import numpy as np

CONTEXT_TOKENS = 1024


class Worker:
    """Owns a model and a context, with llama.cpp's own defaults."""

    def __init__(self, path: str, num_threads: int) -> None:
        self.quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.quiet, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(
            path.encode(), llama_cpp.llama_model_default_params())
        if self.model is None:
            raise SystemExit(f"{path}: llama.cpp cannot load it")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = CONTEXT_TOKENS
        params.n_threads = params.n_threads_batch = num_threads
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        if self.context is None:
            raise SystemExit(f"{path}: llama.cpp makes no context")
        vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.vocab_size = llama_cpp.llama_vocab_n_tokens(vocab)

    def forget(self) -> None:
        memory = llama_cpp.llama_get_memory(self.context)
        llama_cpp.llama_memory_clear(memory, True)

    def logits_after(self, tokens: list[int]) -> np.ndarray:
        array = (llama_cpp.llama_token * len(tokens))(*tokens)
        batch = llama_cpp.llama_batch_get_one(array, len(tokens))
        status = llama_cpp.llama_decode(self.context, batch)
        if status != 0:
            raise SystemExit(f"llama_decode ends with {status}")
        logits = llama_cpp.llama_get_logits_ith(self.context, -1)
        return np.ctypeslib.as_array(logits, (self.vocab_size,))

    def logprobs(self, prompt: list[int], tokens: list[int],
                 watched: list[list[int]]) -> list[dict]:
        self.forget()
        steps, step_input = [], prompt
        for token, ids in zip(tokens, watched):
            logits = self.logits_after(step_input).astype(np.float64)
            logprobs = logits - np.logaddexp.reduce(logits)
            best = np.argsort(logprobs)[-2:][::-1]
            steps.append({"watched": logprobs[ids].tolist(),
                          "best": best.tolist(),
                          "best_logprobs": logprobs[best].tolist()})
            step_input = [token]
        return steps

    def measure(self, prompt: list[int], generate: int) -> dict:
        self.forget()
        start = time.perf_counter()
        token = int(np.argmax(self.logits_after(prompt)))
        first = time.perf_counter()
        for _ in range(generate):
            token = int(np.argmax(self.logits_after([token])))
        end = time.perf_counter()
        return {"prompt_seconds": first - start, "decode_seconds": end - first}


def main() -> int:
    worker = Worker(sys.argv[1], int(sys.argv[2]))
    system = llama_cpp.llama_print_system_info().decode()
    print(json.dumps({"version": llama_cpp.__version__, "system": system}),
          flush=True)
    for line in sys.stdin:
        (name, arguments), = json.loads(line).items()
        answer = getattr(worker, name)(**arguments)
        print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
