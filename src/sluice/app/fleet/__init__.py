"""A fleet: streams shared out over the nodes of a Ray cluster, one pipeline a worker; see docs/fleet.md.

`plan`, `nodes`, `rollout` and `fence` decide and know neither Ray nor GStreamer; `controller` does what they say.
"""
