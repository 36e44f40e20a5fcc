"""Between a Dify session and the core: models, storage, messages. The only code that touches dify_plugin."""
