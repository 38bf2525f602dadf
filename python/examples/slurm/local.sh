#!/bin/sh
# The same steps on this machine, one part after another: local.sh SOURCE OUTPUT PARTS
set -eu
here=$(dirname "$0")
for SLURM_ARRAY_TASK_ID in $(seq "$3"); do
    export SLURM_ARRAY_TASK_ID
    sh "$here/part.sh" "$1" "$2" "$3"
done
kiste commit "$2"
