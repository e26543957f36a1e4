#!/usr/bin/env bash
# The demo: makes a speech corpus of home commands, trains a model on it, tests it on voices that it never heard,
# exports it, and transcribes a file. `make demo` installs what is needed and runs this.
#
# DEMO_DIR (default: demo), DEMO_UTTERANCES, DEMO_EPOCHS and DEMO_N_HIDDEN change where and how much. Each run trains
# anew: $DEMO_DIR/checkpoints, summaries and export are replaced.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PYTHON=${PYTHON:-python3}
DEMO_DIR=${DEMO_DIR:-demo}
DEMO_UTTERANCES=${DEMO_UTTERANCES:-2800}
DEMO_EPOCHS=${DEMO_EPOCHS:-10}
DEMO_N_HIDDEN=${DEMO_N_HIDDEN:-192}
readonly CORPUS=$DEMO_DIR/corpus

title() { printf '\n== %s\n' "$*"; }

# Shows a command as a user would type it, and runs it.
run() {
  printf '$ %s\n' "$*"
  "$@"
}

# The first file of the test set, and what is said in it.
first_test_file() {
  "$PYTHON" -c '
import csv, os, sys
with open(sys.argv[1], encoding="utf-8", newline="") as file:
    row = next(csv.DictReader(file))
print(os.path.join(os.path.dirname(sys.argv[1]), row["wav_filename"]))
print(row["transcript"])' "$CORPUS/test.csv"
}

main() {
  local towers=() common answer
  if ! { command -v nvidia-smi && nvidia-smi -L; } >/dev/null 2>&1; then
    towers=(--cpu_towers 2)  # with GPUs, there is a tower for each
  fi
  if [ ! -e "$CORPUS/corpus.json" ] && [ -n "$(ls -A "$DEMO_DIR" 2>/dev/null)" ]; then
    echo "error: $DEMO_DIR is not empty and is not the demo's; name another folder with DEMO_DIR" >&2
    exit 2
  fi
  common=(--n_hidden "$DEMO_N_HIDDEN" --checkpoint_dir "$DEMO_DIR/checkpoints")

  title "A corpus: home commands, spoken by eSpeak NG ($CORPUS)"
  run "$PYTHON" bin/make_espeak_corpus.py "$CORPUS" --grammar data/demo/home.gram \
    --utterances "$DEMO_UTTERANCES" --dev_share 0.06 --test_share 0.08 --rates 140,165,190 --pitches 25,45,65,85

  title 'Training, then testing on voices that are not in the training data, then exporting'
  rm -rf "$DEMO_DIR/checkpoints" "$DEMO_DIR/summaries" "$DEMO_DIR/export"
  run "$PYTHON" DeepSpeech.py \
    --train_files "$CORPUS/train.csv" --dev_files "$CORPUS/dev.csv" --test_files "$CORPUS/test.csv" \
    "${common[@]}" ${towers[@]+"${towers[@]}"} \
    --epochs "$DEMO_EPOCHS" --train_batch_size 4 --dev_batch_size 32 --test_batch_size 32 --beam_width 32 \
    --learning_rate 0.0015 --dropout_rate 0.1 --shuffle_batches \
    --summary_dir "$DEMO_DIR/summaries" --export_dir "$DEMO_DIR/export"

  mapfile -t answer < <(first_test_file)
  title "Transcribing a test file, in which is said: ${answer[1]}"
  run "$PYTHON" DeepSpeech.py "${common[@]}" --one_shot_infer "${answer[0]}"

  title 'Done'
  printf '%s\n' "The exported model: $DEMO_DIR/export/output_graph.pb" \
    "The curves of the training are in $DEMO_DIR/summaries. To look at them in a browser:" \
    "    $(dirname "$PYTHON")/tensorboard --logdir $DEMO_DIR/summaries" \
    'Next: train on your own data, as README.md says.'
}

main
