"""The plugin's own web pages: who may enter, and which address shows what. Nothing that a browser sent is kept."""
