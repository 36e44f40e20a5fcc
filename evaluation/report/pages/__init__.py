"""The web pages of kept runs and tables: values for templates, and the templates."""
