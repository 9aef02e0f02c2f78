"""Commands for authors of parsers: check, corpus, new-parser. Nothing here is loaded by a server."""
