#!/usr/bin/env bash
# All that a GPU must show, in about five minutes on an H100 or H200: the GPU tests, then training beside Hugging Face,
# then a translator of multi30k trained for 42 seconds, which translates the test set.
#
#   benchmarks/gpu.sh prepare   here, with a network: what the GPU's machine lacks goes to .gpu/ (ignored by git)
#   benchmarks/gpu.sh           there, in the root of the repository, with .gpu/ carried along
#   benchmarks/gpu.sh decode    there, only what decodes: its tests, the translator and its speed beside other toolkits
#   benchmarks/gpu.sh dry-run   every step on the processor with tiny models; its numbers say nothing
#
# JSON lines go to ${OUT:-.gpu/out}/gpu.jsonl. The machine has PyTorch for CUDA, transformers, pytest and sacrebleu.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mode="${1:-run}"
python="${PYTHON:-python3}"
out="${OUT:-.gpu/out}"

prepare() {
  mkdir -p .gpu/wheels .gpu/data
  cp ../shared/data/multi30k/*.{en,de}.gz .gpu/data/
  for package in beartype py3langid jaxtyping pydantic pydantic-core typing-inspection annotated-types ctranslate2; do
    version="$("$python" -m pip show "$package" | sed -n 's/^Version: //p')"
    "$python" -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
      --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
      -d .gpu/wheels "$package==$version"
  done
}

install() {
  "$python" -m pip install -q --no-index --no-deps --no-cache-dir --upgrade --target /tmp/dikkat-site .gpu/wheels/*.whl
  export PYTHONPATH="/tmp/dikkat-site:$PWD/src:$PWD/runtime/src:$PWD"
}

# a part that fails says so, and the others still run
part() {
  echo "== $*" >&2
  timeout "${LIMIT:-90}" "$@" || echo "== FAILED ($?): $*" >&2
}

translator() { # device minutes
  work="$(mktemp -d)"
  for name in train val test_2016_flickr; do
    for language in en de; do gzip -dc ".gpu/data/$name.$language.gz" >"$work/$name.$language"; done
  done
  part "$python" -m dikkat train translator "$work"/train.{en,de} --valid "$work/val.en" --valid "$work/val.de" \
    --source-language en --target-language de --out "$work/run" --device "$1" --minutes "$2" >&2
  # our command translates equal lines once, so that its speed needs many that differ
  { cat "$work/test_2016_flickr.en"; head -n 9000 "$work/train.en"; } >"$work/many.en"
  LIMIT=120 part "$python" benchmarks/gpu_decode.py "$work/run" "$work/many.en" --device "$1" | tee -a "$out/gpu.jsonl"
  for beam in 5 1; do
    began="$(date +%s%N)"
    part "$python" -m dikkat translate "$work/run" --beam "$beam" --device "$1" \
      <"$work/test_2016_flickr.en" >"$work/hypotheses.de"
    milliseconds="$((($(date +%s%N) - began) / 1000000))"
    scores="$("$python" -m sacrebleu "$work/test_2016_flickr.de" -i "$work/hypotheses.de" -m bleu chrf -b -w 2 | tr -d '\n ')"
    echo "{\"part\": \"multi30k\", \"device\": \"$1\", \"minutes\": $2, \"beam\": $beam, \"milliseconds\": $milliseconds, \"scores\": $scores}" |
      tee -a "$out/gpu.jsonl"
  done
}

case "$mode" in
prepare) prepare ;;
run)
  mkdir -p "$out"
  install
  part "$python" -m pytest -q -m gpu tests/parity/test_gpu.py tests/unit/kernels -p no:cacheprovider --tb=short
  part "$python" benchmarks/gpu.py --size base | tee -a "$out/gpu.jsonl"
  translator cuda 0.7
  part "$python" benchmarks/gpu.py --size base --peer --updates 20 | tee -a "$out/gpu.jsonl"
  part "$python" benchmarks/gpu.py --size big | tee -a "$out/gpu.jsonl"
  ;;
decode)
  mkdir -p "$out"
  install
  part "$python" -m pytest -q -m gpu tests/parity/test_gpu.py -k "writes or write or search" -p no:cacheprovider --tb=short
  translator cuda 0.7
  ;;
dry-run)
  mkdir -p "$out"
  export PYTHONPATH="$PWD/src:$PWD/runtime/src:$PWD"
  part "$python" benchmarks/gpu.py --dry-run | tee -a "$out/gpu.jsonl"
  part "$python" benchmarks/gpu.py --dry-run --peer | tee -a "$out/gpu.jsonl"
  ;;
*)
  sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 64
  ;;
esac
