# lm-eval
"$WINNOW_ROOT/lab/make_tasks" --task niah --length 2K --count 12 --seed 7 --out tasks.jsonl
cat >needle.yaml <<'TASK'
task: needle
dataset_path: json
dataset_kwargs: {data_files: {test: tasks.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{context}} {{question}}"
doc_to_target: "{{answers[0]}}"
generation_kwargs: {until: ["\n"], max_gen_toks: 32, temperature: 0}
filter_list: [{name: digits, filter: [
  {function: regex, regex_pattern: '(\d(?: \d)*)'}, {function: take_first}]}]
metric_list: [{metric: exact_match}]
TASK
export OPENAI_API_KEY=$WINNOW_KEY
lm_eval run --model local-completions --tasks needle --include_path . \
  --output_path results --log_samples --model_args "model=winnow-lab,\
base_url=$WINNOW_URL/v1/completions,tokenizer_backend=None,num_concurrent=4" \
  >log 2>&1 || tail -5 log
grep -E '^\|' log
cat results/*/samples_*.jsonl | python3 -c '
import json, sys
for sample in map(json.loads, list(sys.stdin)[:3]):
    print(sample["target"], "->", sample["resps"][0][0], sample["exact_match"])'
