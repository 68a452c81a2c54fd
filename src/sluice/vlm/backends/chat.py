"""A question as the messages of an OpenAI-compatible chat."""

import base64
from typing import Any

from sluice.vlm.backends import Question


def chat_messages(question: Question, system: str) -> list[dict[str, Any]]:
    """Return the messages: the system prompt if there is one, then the pictures as data URIs and the prompt."""
    pictures = [
        {
            "type": "image_url",
            "image_url": {"url": f"data:image/jpeg;base64,{base64.b64encode(picture.jpeg).decode()}"},
        }
        for picture in question.pictures
    ]
    user = {"role": "user", "content": [*pictures, {"type": "text", "text": question.prompt}]}
    return [{"role": "system", "content": system}, user] if system else [user]
