# curl
post() { curl -sS -H "Authorization: Bearer $WINNOW_KEY" --json "$2" "$WINNOW_URL$1"; echo; }

post /v1/completions '{"prompt": "Say hello.", "temperature": 0}'
post /v1/completions '{"prompt": "Say hello.", "temperature": 0, "stream": true}' |
  sed -n 's/.*"text":"\([^"]*\)".*/\1/p; /DONE/p' | tr -d '\n'; echo
post /v1/completions '{"prompt": "Say hello.", "temperature": "cold"}'
curl -sS -o /dev/null -w '%{http_code}\n' "$WINNOW_URL/v1/models"
