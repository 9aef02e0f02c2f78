"""A stand-in for vLLM: the interface of its parsers, registries, protocol and tokenizers, and nothing else of it."""
