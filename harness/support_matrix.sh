#!/usr/bin/env bash
# What works with which model, found out by serving it and asking over HTTP. Prints the table, as Markdown.
#   harness/support_matrix.sh [--binary PATH] [MODEL.gguf ...]
# Default binary: build/release/bin/tempo9. Default models: those of scripts/fetch-model and of ../shared/models.
# PASS, FAIL, — (not run), N/A (the model never claimed it). What a column asks: harness/lib/support_row.py.
# Exits with 1 when a cell is FAIL; the reasons go to stderr.
set -euo pipefail
cd "$(dirname "$0")/.."

binary=build/release/bin/tempo9
models=()
while [ $# -gt 0 ]; do
  case $1 in
    --binary) binary=$2; shift ;;
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "support_matrix: unknown option $1" >&2; exit 2 ;;
    *) models+=("$1") ;;
  esac
  shift
done
[ -x "$binary" ] || { echo "support_matrix: $binary is not there: build it first" >&2; exit 1; }
if [ ${#models[@]} = 0 ]; then
  models=("$(scripts/fetch-model smollm2)" "$(scripts/fetch-model gemma3)")
  for model in ../shared/models/*.gguf; do [ -f "$model" ] && models+=("$model"); done
fi

log=$(mktemp)
server=
stop_server() {
  [ -n "$server" ] || return 0
  kill -INT "$server" 2> /dev/null || true
  wait "$server" 2> /dev/null || true
  server=
}
trap 'stop_server; rm -f "$log"' EXIT

# Sets `url`, or leaves it empty when the server gives up.
start_server() {
  : > "$log"
  "$binary" --gguf "$@" --port 0 2> "$log" &
  server=$!
  url=
  while [ -z "$url" ] && kill -0 "$server" 2> /dev/null; do
    url=$(grep -o 'http://127\.0\.0\.1:[0-9]*' "$log" | head -1 || true)
    [ -n "$url" ] || sleep 0.1
  done
}

failed=0
echo "| model | architecture | load | text | 10k context | thinking | image |"
echo "|---|---|---|---|---|---|---|"
for model in "${models[@]}"; do
  facts=$("$binary" inspect --full "$model" 2> /dev/null || echo '{}')
  flags=()
  # A model without a chat template continues the text that it is given.
  grep -q '"tokenizer.chat_template"' <<< "$facts" || flags=(--chat-template harness/lib/plain.jinja)
  start_server "$model" "${flags[@]}"
  [ -n "$url" ] || tail -1 "$log" >&2
  row=$(python3 harness/lib/support_row.py "$model" "$url" <<< "$facts") || failed=1
  echo "$row"
  stop_server
done
exit "$failed"
