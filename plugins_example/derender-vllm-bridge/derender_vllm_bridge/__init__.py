"""vLLM's parsers for derender: every parser registered in an installed vLLM is ``vllm:NAME``.

vLLM itself is imported when parsers are listed, or when one of its parsers is asked for.
"""

from derender_vllm_bridge.source import VllmSource

__all__ = ["VllmSource", "source"]

source = VllmSource()
