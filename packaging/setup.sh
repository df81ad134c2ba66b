#!/usr/bin/env bash
# Makes .venv: both projects editable, every third party at the version and hash of constraints.txt.
# Needs Python 3.11 or later and whatever makes pip work on this machine (PIP_* or pip.conf). PYTHON=... chooses another.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "setup: $("$python" --version 2>&1) is too old; shardwright needs 3.11 or later: make setup PYTHON=python3.12" >&2
  exit 1
}
"$python" -m venv .venv
pip=(.venv/bin/python -m pip --disable-pip-version-check)

# The pip of an old Python ignores hashes in a constraints file, so uv comes by a requirements file of its own.
sed -n '/^uv==/,/[^\\]$/p' constraints.txt > .venv/uv.txt
"${pip[@]}" install --quiet --require-hashes --requirement .venv/uv.txt

# uv reads neither PIP_* nor pip.conf: tell it what pip was told, unless uv was told already.
told() { "${pip[@]}" config list | sed -n "s/^[^=]*\.$1='\(.*\)'\$/\1/p" | head -n 1 | sed 's/\\n/ /g'; }
give() { if [[ -z ${!1-} && -n $2 ]]; then export "$1=$2"; fi; }
give UV_DEFAULT_INDEX "$(told index-url)"
give UV_INDEX "$(told extra-index-url)"
give SSL_CERT_FILE "$(told cert)"
give UV_FIND_LINKS "$(for at in $(told find-links); do [[ $at != *://* && ! -d $at ]] || echo "$at"; done | paste -sd,)"

# What is built here (the two editables) is built with pinned tools too, hence --build-constraints.
.venv/bin/uv pip install --quiet --python .venv/bin/python --constraints constraints.txt \
  --build-constraints constraints.txt --editable ".[${EXTRAS:-dev}]" --editable packaging
touch .venv/.stamp
echo "setup: .venv is ready ($(.venv/bin/python --version))"
