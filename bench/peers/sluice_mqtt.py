"""The same with Sluice, whose broker element sends.

python sluice_mqtt.py MODEL SOURCE PORT
"""

import sys

import sluice

model, source, port = sys.argv[1:4]
pipeline = sluice.Pipeline([source], model=model, confidence=0.3, iou=0.45, messages=f"mqtt://127.0.0.1:{port}/objects")
with pipeline:
    for frame in pipeline:
        if frame.number == 0:
            print("started", flush=True)
