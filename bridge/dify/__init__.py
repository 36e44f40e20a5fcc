"""What touches Dify: models, apps, what is chosen and kept, why a call failed."""
