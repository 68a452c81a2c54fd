#!/usr/bin/env bash
# Two models in a row, as for number plates: one finds objects, the other reads each of them from its own pixels.
# Here the first finds people and the second (clothes.py) says which colour dominates each. A tracked object is read when
# it is new, and again when it has come nearer.
#   examples/cascade.sh IN.mp4 OUT.jsonl
set -euo pipefail
eval "$(sluice env)"
gst-launch-1.0 -q sluicemux name=m batch-size=1 \
  ! sluiceinfer unique-id=1 model=people ! sluicetracker \
  ! sluiceinfer unique-id=2 process-mode=secondary model="$(dirname "$0")/clothes.py" infer-on-gie-id=1 \
  ! sluicemsgconv ! sluicemsgbroker location="$2" \
  uridecodebin uri="file://$(realpath "$1")" ! m.sink_0
