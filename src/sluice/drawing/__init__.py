"""Drawing of boxes, texts, lines and masks straight onto the planes of a picture, in its own pixel format."""
