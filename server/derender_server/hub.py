"""Fetching a model's small files from the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path

__all__ = ["MODEL_FILES", "fetch_model_files"]

MODEL_FILES = (
    "tokenizer.json",
    "tekken.json",
    "tiktoken.model",
    "qwen.tiktoken",
    "tokenization_*.py",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "config.json",
    "params.json",
    "generation_config.json",
    "chat_template.jinja",
    "chat_template.json",
    "additional_chat_templates/*.jinja",
)
"""What is fetched. Never weights; the Python code is only read, for the pattern of a tiktoken vocabulary."""


def fetch_model_files(repo_id: str, revision: str | None = None) -> Path:
    """Bring ``MODEL_FILES`` of a repo into the local cache, or find them there, and return their directory.

    Credentials, endpoint, cache and offline mode are the hub client's own: ``HF_TOKEN``, ``HF_ENDPOINT``, ``HF_HOME``,
    ``HF_HUB_OFFLINE``.

    Raises:
        Exception: whatever the client raises; the caller says which model it was.
    """
    # Imported late: it takes as long to import as the rest of the package, and local models never need it.
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(repo_id, revision=revision, allow_patterns=list(MODEL_FILES)))
