from dify_plugin import DifyPluginEnv, Plugin

# A tool keeps its own budget of 200 s; Dify ends it at 600 s.
plugin = Plugin(DifyPluginEnv(MAX_REQUEST_TIMEOUT=600))

if __name__ == "__main__":
    plugin.run()
