import yaml
from dify_plugin import DifyPluginEnv, Plugin

# The SDK reads our declarations with PyYAML's Python loader, which takes half of the time to start; libyaml's reads the
# same ten times as fast.
if yaml.__with_libyaml__:
    yaml.SafeLoader = yaml.CSafeLoader  # type: ignore[assignment,misc]

# A tool keeps its own budget of 200 s; Dify ends it at 600 s.
plugin = Plugin(DifyPluginEnv(MAX_REQUEST_TIMEOUT=600))

if __name__ == "__main__":
    plugin.run()
