"""What people write to send results: the loop of loop.py for one source, and a publish in it.

python loop_mqtt.py MODEL SOURCE PORT QOS
"""

import json
import sys

import cv2
from paho.mqtt.client import CallbackAPIVersion, Client
from yolo import Yolo, follower

model, source, port, qos = sys.argv[1:5]
client = Client(CallbackAPIVersion.VERSION2)
client.connect("127.0.0.1", int(port))
client.loop_start()
yolo, tracker, capture, number = Yolo(model), follower(), cv2.VideoCapture(source), 0
print("started", flush=True)
while (read := capture.read())[0]:
    tracked = tracker.update(yolo.detect(read[1]))
    client.publish("objects", json.dumps({"frame": number, "boxes": tracked.xyxy.tolist()}), qos=int(qos))
    number += 1
