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
# By likelihood: which of four needles, three of them of other documents.
python3 - <<'CHOICES'
import json
records = [json.loads(line) for line in open("tasks.jsonl")]
with open("choices.jsonl", "w") as file:
    for i, record in enumerate(records):
        codes = sorted(records[(i + j) % 12]["answers"][0] for j in range(4))
        print(json.dumps({**record, "codes": codes}), file=file)
CHOICES
cat >likeliest.yaml <<'TASK'
task: likeliest
dataset_path: json
dataset_kwargs: {data_files: {test: choices.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{context}} {{question}}"
doc_to_choice: codes
doc_to_target: "{{codes.index(answers[0])}}"
metric_list: [{metric: acc}]
TASK
export OPENAI_API_KEY=$WINNOW_KEY
python3 -m lm_eval run --model local-completions --tasks needle,likeliest --include_path . \
  --output_path results --log_samples --model_args "model=winnow-lab,\
base_url=$WINNOW_URL/v1/completions,tokenizer_backend=huggingface,\
tokenizer=$WINNOW_ROOT/lab/models/winnow-lab,num_concurrent=4" \
  >log 2>&1 || tail -5 log
grep -E '^\|' log
cat results/*/samples_needle*.jsonl | python3 -c '
import json, sys
for sample in map(json.loads, list(sys.stdin)[:3]):
    print(sample["target"], "->", sample["resps"][0][0], sample["exact_match"])'
cat results/*/samples_likeliest*.jsonl | python3 -c '
import json, sys
for sample in map(json.loads, list(sys.stdin)[:3]):
    worths = [float(worth) for (worth, _), in sample["resps"]]
    codes = sample["doc"]["codes"]
    print(" | ".join(codes), "->", codes[worths.index(max(worths))], sample["acc"])'
