"""What runs in the worker process: the only part of cgtop that imports torch or transformers."""
