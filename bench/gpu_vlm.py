"""Throughput and memory of a vision-language model in this process, with random weights of a realistic size.

The model is LLaVA with a ViT-L/14 at 336 pixels (576 tokens a picture) and a language model of 28 layers of 2048, about
1.9 billion weights in bfloat16; it is asked through the very back end that ``sluicevlm backend=transformers`` uses.
What it says is noise, what it costs is not.

    python3 bench/gpu_vlm.py [--device cuda] [--tokens 64] [--out result.json]

``--small`` makes it a thousand times smaller, to try the program itself on a processor.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE.parent / "tests" / "reference")]

import numpy as np
from tiny_vlm import Sizes, save_llava

from sluice.vlm.backends import BackendOptions, Question, make_backend
from sluice.vlm.pictures import Encoding, Picture

REALISTIC = Sizes(
    image=336,
    vision=1024,
    vision_layers=24,
    vision_heads=16,
    vision_inner=4096,
    text=2048,
    text_layers=28,
    text_heads=16,
    text_inner=5632,
    words=32_064,
    range=0.02,
)
PROMPT = "There are 2 person, 1 car. Describe in one short sentence what happens in this video."


def picture(number: int) -> Picture:
    """A picture of 1280x720, encoded as in a pipeline."""
    noise = np.random.default_rng(number)
    made = Picture(lambda: noise.integers(0, 255, (720, 1280, 3), dtype=np.uint8))
    made.encode(Encoding())
    return made


def memory(device: str) -> dict[str, float]:
    """GPU memory in GiB since the last call: what tensors took at most, and what PyTorch holds."""
    import torch

    if not device.startswith("cuda"):
        return {}
    most = torch.cuda.max_memory_allocated() / 2**30
    held = torch.cuda.memory_reserved() / 2**30
    torch.cuda.reset_peak_memory_stats()
    return {"peak_gib": round(most, 2), "reserved_gib": round(held, 2)}


def measure(folder: Path, device: str, tokens: int, repeats: int) -> dict:
    """Load the model and ask it about 1, 4 and 8 pictures."""
    # Every answer has the same length: none ends before, and each token is one of the model's own.
    extra = {"min_new_tokens": tokens}
    backend = make_backend(
        "transformers",
        BackendOptions(model=str(folder), device=device, max_tokens=tokens, timeout=600.0, extra=extra),
    )
    began = time.perf_counter()
    backend.open()
    result: dict = {"load_s": round(time.perf_counter() - began, 2), "loaded": memory(device), "pictures": {}}
    for count in (1, 4, 8):
        question = Question(PROMPT, [picture(number) for number in range(count)])
        backend.answer(question)  # warm up
        times = []
        for _ in range(repeats):
            began = time.perf_counter()
            backend.answer(question)
            times.append(time.perf_counter() - began)
        seconds = statistics.median(times)
        result["pictures"][count] = {
            "answer_s": round(seconds, 3),
            "slowest_s": round(max(times), 3),
            "tokens_per_s": round(tokens / seconds, 1),
            "answers_per_minute": round(60 / seconds, 1),
            **memory(device),
        }
        print(count, "pictures:", json.dumps(result["pictures"][count]), flush=True)
    backend.close()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    import torch
    import transformers

    sizes = Sizes() if options.small else REALISTIC
    with tempfile.TemporaryDirectory() as name:
        dtype = "float32" if options.device == "cpu" else "bfloat16"
        folder = save_llava(Path(name), sizes, dtype=dtype, device=options.device)
        weights = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
        result = measure(folder, options.device, options.tokens, options.repeats)
    result |= {
        "device": torch.cuda.get_device_name() if options.device.startswith("cuda") else options.device,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "weights_gib": round(weights / 2**30, 2),
        "tokens": options.tokens,
    }
    print(json.dumps(result, indent=2))
    if options.out is not None:
        options.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
