"""The plugin's own web pages: who may enter, which address shows what, and nothing that a browser sent kept or shown."""
