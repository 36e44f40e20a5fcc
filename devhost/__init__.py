"""Development only: starts the plugin as Dify's daemon does and plays Dify's side. Not part of the package."""
