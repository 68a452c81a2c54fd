"""Models slower than the video: which pictures they are shown, what they are asked, and what is made of answers.

Nothing here knows GStreamer. ``sluicevlm`` (`sluice.elements.vlm`) is where it meets the stream.
"""
