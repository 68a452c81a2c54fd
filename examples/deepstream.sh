#!/usr/bin/env bash
# A DeepStream pipeline with sluiceinfer in the place of nvinfer: NVIDIA's mux, tracker and overlay around a Python model.
# Where DeepStream is not installed the same line runs on Sluice's own elements.
#   examples/deepstream.sh IN.mp4 MODEL OUT.mp4
set -euo pipefail
eval "$(sluice env)"
source="uridecodebin uri=file://$(realpath "$1") ! m.sink_0"
if gst-inspect-1.0 --exists nvstreammux && gst-inspect-1.0 --exists nvtracker; then
  tracker=/opt/nvidia/deepstream/deepstream/lib/libnvds_nvmultiobjecttracker.so
  gst-launch-1.0 -e nvstreammux name=m batch-size=1 width=1280 height=720 ! sluiceinfer model="$2" \
    ! nvtracker ll-lib-file=$tracker ! nvvideoconvert ! nvdsosd ! nvvideoconvert ! nvv4l2h264enc ! h264parse \
    ! mp4mux ! filesink location="$3" $source
else
  gst-launch-1.0 -q -e sluicemux name=m batch-size=1 ! sluiceinfer model="$2" \
    ! sluicetracker ! sluicedemux name=d d.src_0 ! sluiceosd ! videoconvert ! x264enc speed-preset=veryfast ! h264parse \
    ! mp4mux ! filesink location="$3" $source
fi
