"""A fleet: streams shared out over the nodes of a Ray cluster. A worker is one actor with one pipeline; see docs/fleet.md.

`plan`, `nodes`, `rollout` and `fence` decide and know neither Ray nor GStreamer; `controller` carries out what they say.
"""
