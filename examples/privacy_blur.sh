#!/usr/bin/env bash
# Hides people in a video before it is stored: the overlay blurs the boxes of class 0 and draws nothing else.
#   examples/privacy_blur.sh IN.mp4 OUT.mp4
set -euo pipefail
eval "$(sluice env)"
gst-launch-1.0 -q -e sluicemux name=m batch-size=1 \
  ! sluiceinfer model=people ! sluicetracker \
  ! sluicedemux name=d \
  d.src_0 ! sluiceosd display-bbox=false display-text=false blur-bbox=1 blur-class-ids=0 \
  ! videoconvert ! x264enc speed-preset=veryfast ! h264parse ! mp4mux ! filesink location="$2" \
  uridecodebin uri="file://$(realpath "$1")" ! m.sink_0
