from bridge.pages import site


class Page(site.PageEndpoint):
    """Every page of the plugin; bridge/pages/site.py says which address shows what."""
