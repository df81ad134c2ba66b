#!/usr/bin/env bash
# Fails on a registry's host name or a path of somebody's machine in a file that git tracks or would add.
# The brackets keep this file from finding itself.
set -euo pipefail
cd "$(dirname "$0")/.."
hosts='py[p]i\.org|py[t]honhosted\.org|np[m]js\.(org|com)|crate[s]\.io|gola[n]g\.org|mave[n]\.(org|apache)|debia[n]\.org'
paths='(^|[^[:alnum:]_./~-]|file://)/(r[o]ot|h[o]me|U[s]ers|w[o]rk)/'
found=0
git grep --untracked -nIE "$hosts|$paths" -- . || found=$?
case $found in
  1) echo "check-names: none" ;;
  0) echo "check-names: the lines above name a registry or a path of one machine; say it without" >&2; exit 1 ;;
  *) exit "$found" ;;
esac
