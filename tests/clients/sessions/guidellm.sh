# guidellm
guidellm benchmark --target "$WINNOW_URL" --model winnow-lab \
  --processor "$WINNOW_ROOT/lab/models/winnow-lab" --rate-type concurrent --rate 4 \
  --max-requests 12 --data prompt_tokens=300,output_tokens=24 \
  --backend-args "{\"headers\": {\"Authorization\": \"Bearer $WINNOW_KEY\"}}" \
  --disable-progress --output-path results.json >log 2>&1 || tail -5 log
python3 -c '
import json
benchmark = json.load(open("results.json"))["benchmarks"][0]
told, metrics = benchmark["request_totals"], benchmark["metrics"]
print({kind: told[kind] for kind in ("successful", "incomplete", "errored")})
tokens = metrics["output_token_count"]["successful"]
print("output tokens", tokens["min"], "to", tokens["max"])
first = metrics["time_to_first_token_ms"]["successful"]
print("time to first token was measured", first["min"] > 0)'
