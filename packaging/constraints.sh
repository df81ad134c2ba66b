#!/usr/bin/env bash
# Writes constraints.txt: the version and the hashes of every third party of both projects and all extras, on every
# platform from Python 3.11 on. Names, versions, hashes and nothing else: no addresses. What is pinned stays as it is
# unless a requirement forbids it; `make constraints ARGS=--upgrade` moves everything, `ARGS='-P name'` one package.
set -euo pipefail
cd "$(dirname "$0")/.."
printf -- '-e .[dev,clients]\n-e packaging\npip\n' |
  .venv/bin/uv pip compile - --output-file constraints.txt --quiet --universal --python-version 3.11 --generate-hashes \
    --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
    --no-emit-package shardwright --no-emit-package shardwright-build "$@" > /dev/null
! grep -n '://' constraints.txt
