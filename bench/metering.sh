#!/bin/bash
# Metering's figures on a private PostgreSQL with fsync on.
set -e
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build --preset release --target bench_metering | tail -1
exec build/release/bin/bench_metering "$@"
