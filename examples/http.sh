#!/bin/sh
# Who asks: a platform team that puts a price tag on every training job before it starts.
# Run: estimator serve --port 8000 &  then  sh examples/http.sh http://127.0.0.1:8000
set -eu
server="${1:-http://127.0.0.1:8000}"
curl --fail-with-body --silent --show-error "$server/v1/plan" \
    --header 'content-type: application/json' \
    --data '{"model": "llama3-8b", "method": "lora", "tokens": "50M", "seq_len": 2048, "global_batch": 64}'
