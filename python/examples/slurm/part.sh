#!/bin/sh
# One task of the array makes one part: part.sh SOURCE OUTPUT PARTS
#SBATCH --job-name=kiste-part
#SBATCH --cpus-per-task=4
#SBATCH --requeue
#SBATCH --output=%x-%A-%a.log
set -eu
exec kiste convert "$1" "$2" --part "$SLURM_ARRAY_TASK_ID/$3" --progress json
