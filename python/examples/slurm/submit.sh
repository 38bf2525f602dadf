#!/bin/sh
# Submits a conversion in parts, and the commit that joins them: submit.sh SOURCE OUTPUT PARTS
set -eu
here=$(dirname "$0")
parts=$(sbatch --parsable --array="1-$3" "$here/part.sh" "$1" "$2" "$3")
sbatch --dependency="afterok:$parts" --job-name=kiste-commit --wrap "kiste commit '$2'"
