#!/bin/bash
# bench/finance.sh [LINES]: the bill of a month beside the number of lines, and lines a second of exports.
set -e
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build --preset release --target bench_finance | tail -1
exec build/release/bin/bench_finance "$@"
