"""The recording that the Python package makes of a model of the zoo, for tests/frozen.

python tests/frozen/record.py FILE
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    ROOT = Path(__file__).resolve().parents[2]
    sys.path[:0] = [str(ROOT / "models" / "record" / "src")]

import sinkscope
import torch
import transformers as tf

PROMPTS = [
    "The old man sat at the door and looked over the water.",
    "He thought of his child, and every night was long.",
]

if __name__ == "__main__":
    torch.set_num_threads(1)
    folder = str(ROOT / "models/zoo/softmax")
    model = tf.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = tf.AutoTokenizer.from_pretrained(folder)
    recording = sinkscope.record(model, tokenizer, PROMPTS, tokens=12, keep=1, model_id="zoo/softmax", progress=False)
    recording.save(Path(sys.argv[1]))
